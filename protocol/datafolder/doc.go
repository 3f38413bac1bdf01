// Package datafolder creates the files of a data folder with the right permissions, and
// determines the user as whom root works on them.
//
// Guarantees:
//
//   - A file of [WriteFile] or [WriteNew] is readable by its owner only, never visible in
//     part, and survives a power cut.
//   - Files and folders of [Create], [Mkdir] and [MkdirAll], and names given by [Rename],
//     survive a power cut. Nothing else in Hubbub creates or renames files that a guarantee
//     depends on.
//   - [Lock] never follows a link.
//   - After [ActAsOwner], a program works on the folder of another user as that user, never as
//     root. Root gives nothing away except folders that it has just made for that user.
package datafolder
