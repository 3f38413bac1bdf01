// Package netguard restricts connections to addresses that others supply: the callbacks and tools
// of Chorus services, and the tools that a message names for an agent.
//
// Guarantees:
//
//   - Only public unicast addresses are dialled, except those of cloud hosts, and only over
//     TLS. An operator can allow further addresses, also without TLS.
//   - The check applies to the address that is dialled, after names and redirects have been
//     resolved. Proxies of the environment are not used, because they would dial unchecked.
//
// The package does no I/O except in its transport.
package netguard
