// Command hubbub-chorus runs the Chorus gateway: remote HTTP agents become agents on the bus, and
// remote channels become chats on the bus.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"hubbub/cmd/internal/program"
	"hubbub/peers/agent/external"
	"hubbub/peers/chorus"
	"hubbub/peers/netguard"
	"hubbub/protocol/redact"

	"github.com/rs/zerolog"
)

func main() { program.Main(chorusProgram()) }

// settings has the values of the flags.
type settings struct {
	chorus    chorus.Options
	Listen    string   `flag:"listen" default:"127.0.0.1:7893" usage:"address to listen on"`
	Allow     []string `flag:"allow-target" usage:"addresses that may be called although they are not public, and by http, as CIDR (repeatable)"`
	TLSCert   string   `flag:"tls-cert" usage:"certificate file (PEM), to serve https; it is read again when it changes"`
	TLSKey    string   `flag:"tls-key" usage:"key file (PEM) of --tls-cert"`
	NoRedact  bool     `flag:"no-redact" usage:"give agents the results of tools unchanged; otherwise each text that looks like a secret is replaced by the name of its kind"`
	Plaintext bool     `flag:"plaintext" usage:"allow other addresses than loopback without TLS, behind a proxy that has it"`
}

func chorusProgram() program.Program {
	s := new(settings)
	return program.Program{
		Name:     "hubbub-chorus",
		Summary:  "connects remote agents and channels to the bus over HTTP (Chorus)",
		Settings: []any{s, &s.chorus},
		Check:    s.check,
		Run:      s.run,
	}
}

func (s *settings) run(ctx context.Context, env *program.Env) error {
	release, err := env.AwaitData(ctx)
	if err != nil {
		return err
	}
	defer release()
	data := env.Data
	store, err := chorus.OpenStore(data)
	if err != nil {
		return err
	}
	listener, err := s.open(&env.Log)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	o := &s.chorus
	if o.PublicURL == "" && s.TLSCert != "" {
		o.PublicURL, o.ProxyURL = "https://"+listener.Addr().String(), "https://"+listener.Addr().String()
	}
	o.Peer, o.Log, o.Version = env.PeerOptions(), &env.Log, env.Version
	var secrets *redact.Redactor
	if !s.NoRedact {
		secrets = redact.New()
	}
	o.OpenAgent = func(s *chorus.AgentSpec) (chorus.Agent, error) {
		s.Redact = secrets
		return external.Open((*external.Spec)(s))
	}
	o.OnReady = func() {
		env.Log.Info().Str("listen", listener.Addr().String()).Str("data", data).Msg("listening")
		env.Ready()
	}
	return errors.Join(chorus.New(store, listener, o).Run(ctx), store.Close())
}

// check checks the flags.
func (s *settings) check(_ context.Context, env *program.Env) error {
	for _, text := range s.Allow {
		p, err := netguard.ParsePrefix(text)
		if err != nil {
			return program.Usage("--allow-target %q is not a CIDR such as 10.1.0.0/16", text)
		}
		s.chorus.Allow = append(s.chorus.Allow, p)
	}
	for flag, raw := range map[string]string{"public-url": s.chorus.PublicURL, "proxy-url": s.chorus.ProxyURL} {
		u, err := url.Parse(raw)
		if raw != "" &&
			(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" ||
				u.User != nil) {
			return program.Usage("--%s %q is not an address such as https://hubbub.example.com", flag, raw)
		}
	}
	if (s.TLSCert == "") != (s.TLSKey == "") {
		return program.Usage("--tls-cert and --tls-key belong together")
	}
	if s.chorus.ComposeWindow == 0 {
		s.chorus.ComposeWindow = -1 // none
	}
	if err := s.checkListen(); err != nil {
		return err
	}
	if s.TLSCert != "" {
		if _, err := program.LoadCertificate(s.TLSCert, s.TLSKey, &env.Log); err != nil {
			return err
		}
	}
	return env.CheckListen("listen", s.Listen)
}

// checkListen refuses to serve secrets in plaintext to other machines.
func (s *settings) checkListen() error {
	if err := program.CheckAddress("listen", s.Listen); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(s.Listen) //nolint:errcheck // CheckAddress has split it
	addr, err := netip.ParseAddr(host)
	local := host == "localhost" || err == nil && addr.Unmap().IsLoopback()
	if !local && s.TLSCert == "" && !s.Plaintext {
		return program.Usage("--listen %s is reachable from other machines, and secrets would be sent in plaintext: "+
			"give --tls-cert and --tls-key, or --plaintext behind a proxy that has TLS", s.Listen)
	}
	return nil
}

func (s *settings) open(log *zerolog.Logger) (net.Listener, error) {
	listener, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return nil, fmt.Errorf("listening: %w (is another gateway running? see --listen)", err)
	}
	if s.TLSCert == "" {
		return listener, nil
	}
	certificate, err := program.LoadCertificate(s.TLSCert, s.TLSKey, log)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return tls.NewListener(listener, certificate.Config()), nil
}
