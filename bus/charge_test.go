package bus

import (
	"fmt"
	"testing"
	"time"

	"hubbub/bus/grant"

	"github.com/rs/zerolog"
)

// BenchmarkCharge charges messages to a credential and to those that issued it.
func BenchmarkCharge(b *testing.B) {
	for levels := 1; levels <= 3; levels++ {
		b.Run(fmt.Sprintf("levels=%d", levels), func(b *testing.B) {
			log := zerolog.Nop()
			q := &quotas{log: &log, metrics: &metrics{}, logged: true, byName: map[string]*usage{}}
			var u *usage
			for i := range levels {
				u = q.ensureLocked(&grant.Credential{Name: fmt.Sprint("c", i), Limits: grant.Limits{
					Messages: 1 << 40, Bytes: 1 << 50, LogBytes: 1 << 50, Sessions: 1, Subscriptions: 1,
				}}, u)
			}
			at := time.Now()
			for b.Loop() {
				at = at.Add(time.Microsecond)
				if err := u.chargeMessage(at, 200); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
