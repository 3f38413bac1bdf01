// Package http1 makes the transport for calls to HTTP servers on the internet, such as those of
// Telegram and of models, bounds their answers, and runs the HTTP servers of the peers.
//
// Guarantees of the transport:
//
//   - A connection that falls silent affects only one call. The transport speaks HTTP/1.1,
//     even if the server offers HTTP/2, so each call has its own connection.
//   - A call fails within 30 s if the server cannot be reached, and within 10 s if it does not
//     answer the TLS handshake. The caller's context limits the time for the answer.
//   - The proxy of the environment is used (HTTP_PROXY, HTTPS_PROXY, NO_PROXY).
package http1
