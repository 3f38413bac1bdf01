// Package datafolder is about who may read the files of a data folder, how they are
// made, and as whom root works on them.
//
// Guarantees:
//
//   - A file of [Write] or [WriteNew] is readable by its owner alone, never seen in part,
//     and still there after a power cut.
//   - What [Create], [Make] and [MkdirAll] made, and the names that [Rename] gave, are still
//     there after a power cut. Nothing else in Hubbub makes or renames what a promise
//     depends on.
//   - A link is never followed to lock a file.
//   - A program that called [ActAsOwner] works on the folder of another user as that user,
//     never as root. Nothing is given away but folders that were just made for that user.
package datafolder
