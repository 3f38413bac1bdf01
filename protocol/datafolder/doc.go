// Package datafolder is about who may read the files of a data folder, and how they
// are written.
//
// Guarantees:
//
//   - A file of [Write] or [WriteFirst] is readable by its owner alone, never seen in part,
//     and still there after a power cut.
//   - A link is never followed to lock a file, nor is what it points to given away.
//   - What root makes in the folder of another user belongs to that user: the program
//     that keeps its data there runs as that user, but a command that root runs may
//     come first. What other users make stays theirs.
package datafolder
