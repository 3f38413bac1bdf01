// Package jsonrpc is bidirectional JSON-RPC 2.0 over a Stream of text frames.
// It knows nothing of the bus.
package jsonrpc
