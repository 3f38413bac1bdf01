package systemd_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"hubbub/peers/system/systemd"
)

// TestSystemd_BoundsTheWaitForAJob loses the notification of the job with the connection: an
// agent's supervisor that kept waiting would never start that agent again.
func TestSystemd_BoundsTheWaitForAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := systemd.Await(t.Context(), make(chan string)); err != nil {
			t.Errorf("without any news: %v; want to go on and look at the unit", err)
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if err := systemd.Await(stopped, make(chan string)); !errors.Is(err, context.Canceled) {
			t.Errorf("when the spawner stops: %v", err)
		}
	})
}
