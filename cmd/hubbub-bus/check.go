package main

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"hubbub/cmd/internal/program"
)

// maxName bounds the names of a bus and of its cluster, in bytes: both stand in NATS
// subjects, and the former in each row.
const maxName = 256

// check refuses settings that cannot be meant, whatever the machine is like.
func (s *settings) check() error {
	if err := s.checkBounds(); err != nil {
		return err
	}
	if err := checkListen(s.bus.Listen); err != nil {
		return err
	}
	if err := checkOrigins(s.bus.AllowOrigins); err != nil {
		return err
	}
	switch {
	case len(s.bus.Name) > maxName:
		return program.Usage("--name is %d bytes long; at most %d are allowed", len(s.bus.Name), maxName)
	case s.noLog && s.log.Required:
		return program.Usage("--activity-required asks for the activity log that --no-activity-log leaves out; give one of them")
	case s.noLog && s.cluster.stream != "":
		return program.Usage("--activity-stream copies the activity log that --no-activity-log leaves out; give one of them")
	}
	return s.cluster.check()
}

// checkListen refuses what is no address at all. Whether one can be listened on
// shows when the bus does.
func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return program.Usage("--listen %q is not an address and a port such as 127.0.0.1:7892", address)
	}
	return nil
}

// natsSchemes are those that the NATS client speaks. Without one it is nats.
var natsSchemes = []string{"nats", "tls", "ws", "wss"}

// check refuses servers that the NATS client would look for in vain, and names
// that are no part of a subject: the bus would stand alone.
func (c *clusterSettings) check() error {
	for _, server := range c.urls {
		full := server
		if !strings.Contains(server, "://") {
			full = "nats://" + server
		}
		u, err := url.Parse(full)
		if err != nil || u.Hostname() == "" || !slices.Contains(natsSchemes, u.Scheme) {
			return program.Usage("--cluster is not the address of a NATS server such as nats://10.0.0.1:4222") // it may hold a password
		}
	}
	if c.prefix != "" && (strings.ContainsAny(c.prefix, " \t\r\n*>") || slices.Contains(strings.Split(c.prefix, "."), "")) {
		return program.Usage("--cluster-name %q cannot begin the names of NATS subjects: it may have no space, * or >, and no empty part between dots", c.prefix)
	}
	if len(c.prefix) > maxName {
		return program.Usage("--cluster-name is %d bytes long; at most %d are allowed", len(c.prefix), maxName)
	}
	if (c.cert == "") != (c.key == "") {
		return program.Usage("--cluster-cert and --cluster-key belong together")
	}
	return nil
}

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
