package c2a

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// JSON-RPC error codes.
const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
	codeUnknownMethod  = -32601
	codeInvalidParams  = -32602
	codeNotInitialized = -32001
	codeBusy           = -32000
)

// A frame is one line from the program: a request, a notification or an answer.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// parseFrame reads a line. The error says why it is no JSON-RPC message.
func parseFrame(line []byte) (*frame, error) {
	var f frame
	if err := json.Unmarshal(line, &f); err != nil {
		return nil, fmt.Errorf("not a JSON-RPC object: %w", err)
	}
	if f.Method == nil && len(f.ID) == 0 {
		return nil, errors.New("neither a method nor an id")
	}
	return &f, nil
}

// hasID reports whether a frame is answered or is an answer.
func (f *frame) hasID() bool { return len(f.ID) > 0 && string(f.ID) != "null" }

// request writes a request line.
func request(id, method string, params any) []byte {
	return line(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

// notification writes a notification line.
func notification(method string, params any) []byte {
	return line(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

// answer writes an answer line with a result.
func answer(id json.RawMessage, result any) []byte {
	return line(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
}

// refusal writes an answer line with an error.
func refusal(id json.RawMessage, code int, message string) []byte {
	return line(map[string]any{"jsonrpc": "2.0", "id": id, "error": rpcError{code, message}})
}

// line writes one object as a line. JSON has no newline of its own.
func line(object any) []byte {
	raw, err := json.Marshal(object)
	if err != nil {
		panic("a C2A frame cannot be marshalled: " + err.Error())
	}
	return append(raw, '\n')
}

var errLongLine = errors.New("the line is too long")

// A lineReader reads lines of bounded length.
type lineReader struct {
	r     *bufio.Reader
	limit int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 32<<10), limit: limit}
}

// next returns the next line that is not blank, without its newline, valid
// until the next call. A line beyond the limit is skipped and reported as
// errLongLine, with its beginning; any other error is final.
func (l *lineReader) next() ([]byte, error) {
	for {
		var whole []byte
		long := false
		for {
			piece, err := l.r.ReadSlice('\n')
			switch {
			case long:
			case len(whole)+len(piece) <= l.limit:
				whole = append(whole, piece...)
			default:
				long, whole = true, append(whole, piece[:l.limit-len(whole)]...)
			}
			if err == nil {
				break
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if errors.Is(err, io.EOF) && len(bytes.TrimSpace(whole)) > 0 && !long {
				return bytes.TrimSpace(whole), nil
			}
			return nil, err
		}
		if long {
			return bytes.TrimSpace(whole), errLongLine
		}
		if whole = bytes.TrimSpace(whole); len(whole) > 0 {
			return whole, nil
		}
	}
}
