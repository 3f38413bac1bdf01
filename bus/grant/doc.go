// Package grant decides which identities a client may use on the bus, and what it may
// subscribe to and send. It reads the credentials file, checks tokens against it, and issues
// and revokes credentials.
//
// Guarantees:
//
//   - A token is never stored: the file holds its SHA-256.
//   - A derived token is valid at one address only. It opens neither another address nor the
//     bus.
//   - Grants are lists of patterns. A pattern that a client requests must be covered by a granted
//     one, which must match everything that the requested one matches.
//   - If the file is deleted or becomes invalid while the bus runs, the last valid state stays
//     in force, and Reload returns an error.
//   - A change of the file is written whole or not at all (rename). Only its owner can read
//     the file.
//   - An issued credential lies within what its issuer may issue, and its limits within those
//     of the issuer, against which all its usage counts. It names its issuer, and is revoked
//     together with it unless the operator keeps it.
//
// The Agent Communication Protocol leaves authentication open. This is Hubbub's extension.
package grant
