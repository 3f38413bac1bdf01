package otlp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"hubbub/protocol/retry"
)

const (
	maxTries = 5                // of one request
	minPause = 2 * time.Second  // after its first failure; each next one is twice as long
	maxPause = 10 * time.Minute // that a collector may ask for
)

// A statusError is an answer that is no success.
type statusError struct {
	code  int
	after time.Duration // that the collector asks to wait; zero: it does not say
}

func (e *statusError) Error() string { return fmt.Sprintf("the collector answered HTTP %d", e.code) }

// statusOfAnswer is nil for a success.
func statusOfAnswer(code int, header http.Header, now time.Time) error {
	if code/100 == 2 {
		return nil
	}
	e := &statusError{code: code}
	text := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		e.after = time.Duration(min(max(seconds, 0), int(maxPause/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		e.after = min(max(at.Sub(now), 0), maxPause)
	}
	return e
}

// pauseAfter says how long nothing is to be sent after a failure, and whether the
// same request may then succeed: OTLP names four answers, and connections that fail.
// random, in [0,1), keeps many buses from coming back at one moment.
func pauseAfter(err error, tries int, random float64) (pause time.Duration, again bool) {
	var answer *statusError
	var connection *url.Error
	switch {
	case errors.As(err, &answer):
		switch answer.code {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		default:
			return 0, false
		}
		if answer.after > 0 {
			return answer.after, true
		}
	case !errors.As(err, &connection):
		return 0, false
	}
	return retry.Backoff{Min: minPause, Max: maxPause}.At(tries, random), true
}
