// Package grant decides who may be whom on the bus, hear what and say where: it
// reads the credentials file, checks tokens against it, and issues and revokes
// credentials.
//
// Guarantees:
//
//   - A token is never stored: the file holds its SHA-256.
//   - A pass of a token shows it at one address: it opens nothing at another, nor the bus.
//   - Grants are lists of patterns. A pattern that a peer asks for must be covered by a
//     granted one: that one must match everything that it matches.
//   - If the file is deleted or broken at runtime, the last good state stays in force,
//     and Reload returns an error.
//   - A change of the file is written whole or not at all (rename), and the
//     file is readable by its owner only.
//   - An issued credential lies inside what its issuer may issue, its bounds inside the
//     issuer's, to which counts all that it uses; it names its issuer, and is revoked with
//     it, unless the operator keeps it.
//
// The Agent Communication Protocol leaves authentication open; this is
// Hubbub's extension of it.
package grant
