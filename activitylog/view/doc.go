// Package view formats the activity log for people: it describes rows and messages in words,
// parses queries, and computes durations and waterfalls. `hubbub tail`, `trace` and `why`, the
// demo and the web console use it.
//
// Guarantees: the package does no I/O. Texts are returned as peers sent them; callers escape them
// for the terminal or the page.
package view
