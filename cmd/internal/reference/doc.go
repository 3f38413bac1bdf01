// Package reference writes documents from what the programs say about
// themselves, so that a document cannot say anything else: the sample of
// hubbub.toml, and manual pages.
//
// Guarantees:
//
//   - The same programs give the same text, byte for byte.
//   - Every setting of a program that the file of an [Edition] may hold stands in
//     its sample once, with its default and its meaning. Without the signs of
//     comment, the sample is a valid file.
//
// Reading a program starts it (see [Read]); everything else is a pure function.
package reference
