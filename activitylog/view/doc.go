// Package view is the one view of the activity log: what a row or a message says
// in words, which rows a person asked for, how long something took, and the bars
// of a waterfall. Under it stands everything that shows rows: `hubbub tail`,
// `trace`, `why`, the demo and the web console.
//
// Guarantees: nothing here does I/O. Texts are as peers sent them: whoever shows
// them escapes them for the terminal or the page.
package view
