// Package files has the contents of what comes with messages: it fetches each once, by
// its reference, and keeps it as long as messages are kept.
//
// Guarantees:
//
//   - Only what a Telegram bridge refers to is fetched: the address stands in a message of the
//     identity tg:..., which no agent or gateway has. The client guards what is dialled.
//   - What a file is, its bytes say, never its name or what its sender calls it.
//   - What is too large, of an unknown kind or gone is a sentence, for the model to tell.
//   - The bytes of a file are bounded before they are read, and those of all files by the mailbox.
package files
