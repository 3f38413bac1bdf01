package main

import (
	"context"
	"net"
	"os"
	"strings"

	"hubbub/activitylog"
	"hubbub/bus/grant"
	"hubbub/cmd/internal/program"
	"hubbub/protocol/text"
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
	if s.log.Retention, err = activitylog.ParseRetention(s.Keep); err != nil {
		return program.Usage("--activity-keep %s", err)
	}
	if err := program.CheckAddress("listen", s.bus.Listen); err != nil {
		return err
	}
	if s.TLSCert == "" && !s.bus.Plaintext && isPublic(s.bus.Listen) {
		return program.Usage("--listen %s without TLS: tokens would be sent in plaintext; give --tls-cert and "+
			"--tls-key, or --plaintext behind a proxy that adds TLS", s.bus.Listen)
	}
	if err := checkOrigins(s.bus.AllowOrigins); err != nil {
		return err
	}
	switch {
	case len(s.bus.Name) > program.MaxName:
		return program.Usage("--name is %d bytes long; at most %d are allowed", len(s.bus.Name), program.MaxName)
	case !text.IsCleanName(s.bus.Name):
		return program.Usage("--name must be %s", text.NameRule)
	case s.NoLog && s.log.Required:
		return program.Usage("--activity-required asks for the activity log that --no-activity-log leaves out; give " +
			"one of them")
	case s.NoLog && s.cluster.Stream != "":
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
	if err := program.CheckCluster(c.URLs, c.Prefix); err != nil {
		return err
	}
	if strings.ContainsAny(c.Stream, " \t\r\n.*>/\\") {
		return program.Usage("--activity-stream %q cannot be the name of a JetStream stream: it may have no space "+
			"and none of . * > / \\", c.Stream)
	}
	if (c.Cert == "") != (c.Key == "") {
		return program.Usage("--cluster-cert and --cluster-key belong together")
	}
	return nil
}

// checkFiles refuses files that cannot be read.
func (c *clusterSettings) checkFiles() error {
	for flag, file := range map[string]string{
		"cluster-creds": c.Creds,
		"cluster-ca":    c.CA,
		"cluster-cert":  c.Cert,
		"cluster-key":   c.Key,
	} {
		if err := program.CheckFile(flag, file); err != nil {
			return err
		}
	}
	return nil
}
