// Package http1 makes the transport with which our programs call the HTTP
// servers of others, such as Telegram's and those of models.
//
// Guarantees:
//
//   - One silent connection costs one call: each call under way has a connection
//     of its own, as the transport speaks HTTP/1.1 alone, also where the server
//     offers HTTP/2.
//   - A server that cannot be reached is told within 30 s, and one that does not
//     answer the TLS handshake within 10 s. How long an answer may take is the
//     caller's context's to say.
//   - The proxy of the environment is used (HTTPS_PROXY, NO_PROXY).
package http1
