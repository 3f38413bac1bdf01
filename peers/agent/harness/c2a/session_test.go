package c2a

import (
	"testing"

	"pgregory.net/rapid"
)

func TestFramesOfAnyShape(t *testing.T) {
	for line, ok := range map[string]bool{
		`{"jsonrpc":"2.0","id":"a","result":{}}`: true, `{"id":7,"error":{"code":1,"message":"m"}}`: true,
		`{"method":"x"}`: true, `{"id":null,"method":"x"}`: true,
		`{}`: false, `[]`: false, `null`: false, `"x"`: false, `{"id":1,"method":3}`: false, `{"error":"text","id":1}`: false, "": false,
	} {
		f, err := parseFrame([]byte(line))
		if (err == nil) != ok {
			t.Errorf("%s: %v, %v", line, f, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		parseFrame(rapid.SliceOf(rapid.Byte()).Draw(t, "line")) //nolint:errcheck // it must only not panic
	})
}
