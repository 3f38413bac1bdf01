// Package reference generates the sample of hubbub.toml and the manual pages from what the
// programs say about themselves. The documents therefore always match the programs.
//
// Guarantees:
//
//   - The same programs give the same text, byte for byte.
//   - A sample has every setting of its file once, with its default and its meaning. Without the comment signs, it
//     is a valid file.
//
// [Describe] runs the programs; everything else is a pure function. The other text of the documents is in
// templates.
package reference
