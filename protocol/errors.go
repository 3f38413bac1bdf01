package protocol

// Error codes (section 13 and JSON-RPC 2.0).
const (
	CodeNotInitialized       = -32001
	CodeSubscriptionNotFound = -32003
	CodeParse                = -32700
	CodeInvalidRequest       = -32600
	CodeMethodNotFound       = -32601
	CodeInvalidParams        = -32602
	CodeInternal             = -32603
)
