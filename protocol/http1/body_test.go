package http1_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"hubbub/protocol/http1"
)

func TestLimitBody_FailsAtLimit(t *testing.T) {
	tooLong := errors.New("too long")
	for length, whole := range map[int]bool{0: true, 9: true, 10: false, 11: false, 1000: false} {
		body := io.NopCloser(strings.NewReader(strings.Repeat("x", length)))
		got, err := io.ReadAll(http1.LimitBody(body, 10, tooLong))
		if len(got) != min(length, 10) || (err == nil) != whole || err != nil && !errors.Is(err, tooLong) {
			t.Errorf("of %d bytes %d are read, %v", length, len(got), err)
		}
	}
}
