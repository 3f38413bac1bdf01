// Package reference generates documents from what the programs say about themselves, so
// that a document cannot say anything else: the sample of hubbub.toml, and manual
// pages.
//
// Guarantees:
//
//   - The same programs give the same text, byte for byte.
//   - A sample has every setting that its file may hold once, with its default and its
//     meaning. Without the comment signs, it is a valid file.
//
// [Describe] starts the programs; everything else is a pure function. What the
// documents say besides is in templates.
package reference
