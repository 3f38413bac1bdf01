// Package timetest lets time pass in tests whose clock is that of a testing/synctest
// bubble.
package timetest

import (
	"testing/synctest"
	"time"
)

// Advance pauses the calling goroutine for d and then blocks until every other goroutine of
// its bubble is durably blocked. What the others did until then happens before Advance
// returns, including what they did at that very moment. It panics outside a bubble, and
// when another goroutine of the bubble is in Advance's second half or in synctest.Wait.
func Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
