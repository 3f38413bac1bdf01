// Package files fetches the files that come with messages. It fetches each file once, by its
// reference, and stores it as long as messages are stored.
//
// Guarantees:
//
//   - Only files of a Telegram bridge are fetched: their references are in messages from
//     identities tg:..., which no agent or gateway has. The client restricts the addresses
//     that it connects to.
//   - The type of a file is detected from its content, not from its name or its sender's claim.
//   - A file that is too large, unavailable or of an unknown type yields a sentence for the
//     model.
//   - The size of a file is bounded before it is read. The mailbox bounds the size of all files.
package files
