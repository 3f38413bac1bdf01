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
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/peers/agent/external"
	"hubbub/peers/chorus"
	"hubbub/peers/netguard"
	"hubbub/protocol/redact"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
)

func main() { program.Main(chorusProgram()) }

// A settings has the values of the flags.
type settings struct {
	chorus    chorus.Options
	listen    string
	allow     []string
	tlsCert   string
	tlsKey    string
	noRedact  bool
	plaintext bool
}

func chorusProgram() program.Program {
	var s settings
	return program.Program{
		Name:    "hubbub-chorus",
		Summary: "connects HTTP agents and channels elsewhere with the bus (Chorus)",
		Flags:   s.flags,
		Check:   s.check,
		Run:     s.run,
	}
}

func (s *settings) flags(fs *pflag.FlagSet) {
	o := &s.chorus
	fs.StringVar(&s.listen, "listen", "127.0.0.1:7893", "address to listen on")
	fs.StringVar(&o.PublicURL, "public-url", "",
		"where the outside reaches --listen, such as https://hubbub.example.com (default the address itself)")
	fs.StringVar(&o.ProxyURL, "proxy-url", "",
		"where agents on the bus reach --listen, for the tools of services (default the address itself)")
	fs.StringArrayVar(&s.allow, "allow-target", nil,
		"addresses that may be called although they are not public, and by http, as CIDR (repeatable)")
	fs.DurationVar(&o.CallbackTTL, "callback-ttl", time.Hour,
		"lifetime of the callback and the tools' token of one delivery; 410 afterwards")
	fs.DurationVar(&o.ComposeWindow, "compose-window", 2*time.Second,
		"wait for more from the same author before a delivery; 0 for none")
	fs.DurationVar(&o.ComposeCap, "compose-cap", 30*time.Second, "longest such wait")
	fs.IntVar(&o.MaxFrame, "max-frame", 1<<20,
		"largest frame of the bus, in bytes: what would not fit is refused with 413")
	fs.StringVar(&s.tlsCert, "tls-cert", "", "certificate file (PEM), to serve https; it is read again when it changes")
	fs.StringVar(&s.tlsKey, "tls-key", "", "key file (PEM) of --tls-cert")
	fs.BoolVar(&s.noRedact, "no-redact", false,
		"give agents the secrets in what tools answer; otherwise what has the shape of one is replaced by its name")
	fs.BoolVar(&s.plaintext, "plaintext", false,
		"allow other addresses than loopback without TLS, behind a proxy that has it")
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
	if o.PublicURL == "" && s.tlsCert != "" {
		o.PublicURL, o.ProxyURL = "https://"+listener.Addr().String(), "https://"+listener.Addr().String()
	}
	o.Peer, o.Log, o.Version = env.PeerOptions(), &env.Log, env.Version
	var secrets *redact.Redactor
	if !s.noRedact {
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
	for _, text := range s.allow {
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
	if (s.tlsCert == "") != (s.tlsKey == "") {
		return program.Usage("--tls-cert and --tls-key belong together")
	}
	if s.chorus.CallbackTTL <= 0 || s.chorus.ComposeWindow < 0 || s.chorus.ComposeCap <= 0 || s.chorus.MaxFrame <= 0 {
		return program.Usage("--callback-ttl, --compose-cap and --max-frame must be greater than 0, and " +
			"--compose-window not less")
	}
	if s.chorus.ComposeWindow == 0 {
		s.chorus.ComposeWindow = -1 // none
	}
	if err := s.checkListen(); err != nil {
		return err
	}
	if s.tlsCert != "" {
		if _, err := program.LoadCertificate(s.tlsCert, s.tlsKey, &env.Log); err != nil {
			return err
		}
	}
	return env.CheckListen("listen", s.listen)
}

// checkListen refuses to serve secrets in plaintext to other machines.
func (s *settings) checkListen() error {
	if err := program.CheckAddress("listen", s.listen); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(s.listen) //nolint:errcheck // CheckAddress has split it
	addr, err := netip.ParseAddr(host)
	local := host == "localhost" || err == nil && addr.Unmap().IsLoopback()
	if !local && s.tlsCert == "" && !s.plaintext {
		return program.Usage("--listen %s is reached from elsewhere, and secrets would travel in the clear: "+
			"give --tls-cert and --tls-key, or --plaintext behind a proxy that has TLS", s.listen)
	}
	return nil
}

func (s *settings) open(log *zerolog.Logger) (net.Listener, error) {
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return nil, fmt.Errorf("listening: %w (is another gateway running? see --listen)", err)
	}
	if s.tlsCert == "" {
		return listener, nil
	}
	certificate, err := program.LoadCertificate(s.tlsCert, s.tlsKey, log)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return tls.NewListener(listener, certificate.Config()), nil
}
