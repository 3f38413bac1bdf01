// Package datafolder creates the files of a data folder with the right permissions, and makes
// root work on a data folder only as its owner.
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
//     root. Root changes the owner only of folders that it has just created for that user.
package datafolder
