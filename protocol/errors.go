package protocol

import "hubbub/protocol/jsonrpc"

// Error codes: two of section 13, and those of JSON-RPC 2.0.
const (
	CodeNotInitialized       = -32001
	CodeSubscriptionNotFound = -32003
	CodeInvalidRequest       = jsonrpc.CodeInvalidRequest
	CodeMethodNotFound       = jsonrpc.CodeMethodNotFound
	CodeInvalidParams        = jsonrpc.CodeInvalidParams
	CodeInternal             = jsonrpc.CodeInternal
)
