// Package reference generates documents from what the programs say about themselves, so
// that a document cannot say anything else: the sample of hubbub.toml, and manual
// pages.
//
// Guarantees:
//
//   - The same programs give the same text, byte for byte.
//   - A sample has every setting that the file of its [Edition] may hold once, with its
//     default and its meaning. Without the comment signs, it is a valid file.
//
// Reading a program starts it (see [Read]); everything else is a pure function.
package reference
