package main

import (
	"cmp"
	"context"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/bus/grant"
	"hubbub/cmd/internal/program"
)

// checkHere refuses settings that cannot work on this machine.
func (s *settings) checkHere(_ context.Context, env *program.Env) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := s.cluster.checkFiles(); err != nil {
		return err
	}
	if err := s.loadTLS(&env.Log); err != nil {
		return err
	}
	credentials := env.DataFile(grant.FileName)
	if _, err := os.Stat(credentials); err == nil {
		if err := grant.NewFile(credentials).Reload(); err != nil {
			return err
		}
	}
	return env.CheckListen("listen", s.bus.Listen)
}

// check refuses settings that cannot work on any machine.
func (s *settings) check() (err error) {
	if err := s.checkBounds(); err != nil {
		return err
	}
	if s.log.Retention, err = activitylog.ParseRetention(s.keep); err != nil {
		return program.Usage("--activity-keep %s", err)
	}
	if err := program.CheckAddress("listen", s.bus.Listen); err != nil {
		return err
	}
	if s.tlsCert == "" && !s.bus.Plaintext && isPublic(s.bus.Listen) {
		return program.Usage("--listen %s without TLS: tokens would travel in the clear; give --tls-cert and "+
			"--tls-key, or --plaintext behind a proxy that adds TLS", s.bus.Listen)
	}
	if err := checkOrigins(s.bus.AllowOrigins); err != nil {
		return err
	}
	switch {
	case len(s.bus.Name) > program.MaxName:
		return program.Usage("--name is %d bytes long; at most %d are allowed", len(s.bus.Name), program.MaxName)
	case s.noLog && s.log.Required:
		return program.Usage("--activity-required asks for the activity log that --no-activity-log leaves out; give " +
			"one of them")
	case s.noLog && s.cluster.stream != "":
		return program.Usage("--activity-stream copies the activity log that --no-activity-log leaves out; give one " +
			"of them")
	}
	return s.cluster.check()
}

// isPublic reports whether an address is certainly reachable from other machines. Names are
// resolved only when the bus listens.
func isPublic(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "" || ip != nil && !ip.IsLoopback())
}

// check refuses settings with which the bus would not join its cluster.
func (c *clusterSettings) check() error {
	if err := program.CheckCluster(c.urls, c.prefix); err != nil {
		return err
	}
	if strings.ContainsAny(c.stream, " \t\r\n.*>/\\") {
		return program.Usage("--activity-stream %q cannot be the name of a JetStream stream: it may have no space "+
			"and none of . * > / \\", c.stream)
	}
	if (c.cert == "") != (c.key == "") {
		return program.Usage("--cluster-cert and --cluster-key belong together")
	}
	return nil
}

// checkFiles refuses files that cannot be read.
func (c *clusterSettings) checkFiles() error {
	for flag, file := range map[string]string{
		"cluster-creds": c.creds,
		"cluster-ca":    c.ca,
		"cluster-cert":  c.cert,
		"cluster-key":   c.key,
	} {
		if err := program.CheckFile(flag, file); err != nil {
			return err
		}
	}
	return nil
}

// checkBounds refuses bounds that would let nothing through.
func (s *settings) checkBounds() error {
	o := &s.bus
	counts := map[string]int{
		"peer-window": o.PeerWindow, "peer-queue": o.PeerQueue, "peer-queue-bytes": o.PeerQueueBytes,
		"peer-buffer":       o.PeerBuffer,
		"slow-bytes":        o.SlowBytes,
		"max-frame":         o.MaxFrame,
		"max-subscriptions": o.MaxSubscriptions,
		"max-sessions":      o.MaxSessions, "activity-queue": s.log.QueueRows, "activity-queue-bytes": s.log.QueueBytes,
		"activity-wal": cmp.Compare(s.log.MaxWAL, 0), "activity-segment-rows": cmp.Compare(s.log.SegmentRows, 0),
		"activity-segment-bytes": cmp.Compare(s.log.SegmentBytes, 0),
	}
	for _, bound := range s.credentialBounds() {
		counts[bound.flag] = cmp.Compare(*bound.value, 0)
	}
	times := map[string]time.Duration{
		"delivery-timeout": o.DeliveryTimeout, "initialize-timeout": o.InitializeTimeout,
		"write-timeout": o.WriteTimeout, "ping-interval": o.PingInterval, "activity-hold": s.log.Hold,
		"activity-segment-age": s.log.SegmentAge,
	}
	for _, flag := range slices.Sorted(maps.Keys(counts)) {
		if counts[flag] < 1 {
			return program.Usage("--%s must be at least 1", flag)
		}
	}
	for _, flag := range slices.Sorted(maps.Keys(times)) {
		if times[flag] <= 0 {
			return program.Usage("--%s must be longer than 0s, such as 30s", flag)
		}
	}
	return nil
}
