// Package netguard restricts connections to addresses that others supply: the callbacks and tools
// of Chorus services, and the tools that a message names for an agent.
//
// Guarantees:
//
//   - Only public unicast addresses are dialled, except those of cloud hosts, and only over TLS.
//     An operator can allow further addresses, even without TLS.
//   - The check applies to the address that is dialled, after names and redirects have been
//     resolved. Behind a proxy of the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY), it applies
//     to every address that the host has here. The proxy then looks up the name itself.
//     Addresses that an operator allows specifically are called without the proxy.
//
// The package does no I/O except in its transport.
package netguard
