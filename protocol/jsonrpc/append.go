package jsonrpc

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// AppendRequest appends a request whose params are the given JSON text.
func AppendRequest(dst []byte, id uint64, method string, params []byte) []byte {
	dst = appendRequestHead(dst, id, method)
	dst = append(dst, params...)
	return append(dst, '}')
}

// appendRequestHead appends a request up to its params; the caller appends
// their text and a closing brace.
func appendRequestHead(dst []byte, id uint64, method string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendUint(dst, id, 10)
	dst = append(dst, `,"method":"`...)
	dst = append(dst, method...)
	return append(dst, `","params":`...)
}

// AppendResult appends the answer to a request.
func AppendResult(dst []byte, id ID, result []byte) []byte {
	dst = appendResponseHead(dst, id)
	dst = append(dst, `"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

// AppendError appends the error answer to a request. A nil id is written as null.
func AppendError(dst []byte, id ID, e *Error) []byte {
	dst = appendResponseHead(dst, id)
	dst = append(dst, `"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, e.Message)
	if len(e.Data) > 0 {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, `}}`...)
}

func appendResponseHead(dst []byte, id ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if id == nil {
		dst = append(dst, `null`...)
	} else {
		dst = append(dst, id...)
	}
	return append(dst, ',')
}

// AppendString appends s as a JSON string.
func AppendString(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if !plain[s[i]] || s[i] >= utf8.RuneSelf {
			quoted, err := json.Marshal(s)
			if err != nil { // cannot happen: every string can be marshalled
				return append(dst, `""`...)
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// AppendRequestText appends a request whose id and params are given as JSON
// text.
func AppendRequestText(dst []byte, id, method, params string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"method":`...)
	dst = AppendString(dst, method)
	dst = append(dst, `,"params":`...)
	dst = append(dst, params...)
	return append(dst, '}')
}
