package main

import (
	"cmp"
	"net/url"
	"time"

	"hubbub/cmd/internal/program"
)

// checkBounds refuses bounds that would let nothing through.
func (s *settings) checkBounds() error {
	o := &s.bus
	for _, b := range []struct {
		flag  string
		value int
	}{
		{"peer-window", o.PeerWindow}, {"peer-queue", o.PeerQueue}, {"peer-queue-bytes", o.PeerQueueBytes},
		{"peer-buffer", o.PeerBuffer}, {"max-frame", o.MaxFrame}, {"max-subscriptions", o.MaxSubscriptions},
		{"max-sessions", o.MaxSessions}, {"activity-queue", s.log.QueueRows}, {"activity-queue-bytes", s.log.QueueBytes},
		{"activity-wal", cmp.Compare(s.log.MaxWAL, 0)},
	} {
		if b.value < 1 {
			return program.Usage("--%s must be at least 1", b.flag)
		}
	}
	for _, b := range []struct {
		flag  string
		value time.Duration
	}{
		{"delivery-timeout", o.DeliveryTimeout}, {"initialize-timeout", o.InitializeTimeout},
		{"write-timeout", o.WriteTimeout}, {"ping-interval", o.PingInterval},
	} {
		if b.value <= 0 {
			return program.Usage("--%s must be longer than 0s, such as 30s", b.flag)
		}
	}
	return nil
}

// checkOrigins refuses what no browser could send as its Origin, since it would
// allow nothing.
func checkOrigins(list []string) error {
	for _, o := range list {
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o {
			return program.Usage("--allow-origin %q is not a full origin such as https://ops.example.com: a scheme and a host, without a path", o)
		}
	}
	return nil
}
