// Package http1 makes the transport for calls to other people's HTTP servers, such as
// Telegram's and those of models.
//
// Guarantees:
//
//   - A connection that falls silent affects one call only: the transport speaks
//     HTTP/1.1, even if the server offers HTTP/2, so each call has its own connection.
//   - A call fails within 30 s if the server cannot be reached, and within 10 s if it
//     does not answer the TLS handshake. The caller's context limits the time for the
//     answer.
//   - The proxy of the environment is used (HTTPS_PROXY, NO_PROXY).
package http1
