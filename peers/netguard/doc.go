// Package netguard guards the connections that programs make to addresses which others
// gave them: callbacks and tools of Chorus services, and the address of a channel's tools in a
// message for an agent.
//
// Guarantees:
//
//   - What is not public unicast, or is a host of a cloud, is not dialled, and nothing
//     is called in the clear, unless it is allowed.
//   - Each connection is judged by the address that is dialled, after every spelling, name and
//     redirect was resolved; proxies of the environment are not used.
//
// It does no I/O but that of its transport.
package netguard
