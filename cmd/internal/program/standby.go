package program

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"hubbub/peers/lease"
	"hubbub/protocol/text"

	"github.com/nats-io/nats.go"
)

// Standby has the flags of a program that may be active only once in a cluster of machines.
type Standby struct {
	URLs        []string `flag:"cluster,split" usage:"NATS server that decides which of several programs is the active one, such as nats://10.0.0.1:4222 (repeatable)"`
	ClusterName string   `flag:"cluster-name" default:"hubbub" usage:"name of the cluster: the prefix of its leases"`
	Creds       string   `flag:"cluster-creds" usage:"NATS credentials file"`
}

// Check refuses flags that cannot yield a lease.
func (s *Standby) Check() error {
	if err := CheckCluster(s.URLs, s.ClusterName); err != nil {
		return err
	}
	return CheckFile("cluster-creds", s.Creds)
}

// RunBridge is Run for the bridge of a bot, which calls ready when it serves. Before that, an
// error of refused is a usage error. Later it is not, because a token that was valid may become
// valid again.
func (s *Standby) RunBridge(ctx context.Context, env *Env, bot string, refused error,
	work func(ctx context.Context, ready func()) error) error {
	var served atomic.Bool
	err := s.Run(ctx, env, bot, func(ctx context.Context) error {
		return work(ctx, func() {
			served.Store(true)
			env.Ready()
		})
	})
	if errors.Is(err, refused) && !served.Load() {
		return Usage("%w", err)
	}
	return err
}

// Run does the work. With --cluster it does so only while this program holds the lease on what,
// and again whenever it regains the lease.
func (s *Standby) Run(ctx context.Context, env *Env, what string, work func(context.Context) error) error {
	if err := CheckCluster(s.URLs, s.ClusterName); err != nil {
		return err
	}
	if len(s.URLs) == 0 {
		return work(ctx)
	}
	var options []nats.Option
	if s.Creds != "" {
		options = append(options, nats.UserCredentials(s.Creds))
	}
	host, _ := os.Hostname() //nolint:errcheck // it is for people
	holder := env.Name + " on " + cmp.Or(host, "unknown host")
	var working atomic.Bool // the work has a pulse of its own
	var waiting sync.WaitGroup
	defer waiting.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	waiting.Go(func() { env.PulseWhile(ctx, func() bool { return !working.Load() }) })
	return lease.New(s.URLs, what, holder, &lease.Options{
		Prefix: s.ClusterName,
		NATS:   options,
		Log:    &env.Log,
	}).Run(ctx, func(ctx context.Context) error {
		working.Store(true)
		defer working.Store(false)
		return work(ctx)
	})
}

// MaxName bounds the names of a bus and of its cluster, in bytes. Both are part of NATS subjects,
// and the name of the bus is part of each row.
const MaxName = 256

// natsSchemes are the schemes of the NATS client. The default is nats.
var natsSchemes = []string{"nats", "tls", "ws", "wss"}

// CheckCluster refuses --cluster servers that the NATS client could never reach, and a
// --cluster-name that cannot be part of a subject.
func CheckCluster(servers []string, name string) error {
	for _, server := range servers {
		full := server
		if !strings.Contains(server, "://") {
			full = "nats://" + server
		}
		u, err := url.Parse(full)
		if err != nil || u.Hostname() == "" || !slices.Contains(natsSchemes, u.Scheme) {
			// it may hold a password
			return Usage("--cluster is not the address of a NATS server such as nats://10.0.0.1:4222")
		}
	}
	switch {
	case !text.IsCleanName(name), name != "" && (strings.ContainsAny(name, " *>") || slices.Contains(strings.Split(name, "."), "")):
		return Usage("--cluster-name %q cannot begin the names of NATS subjects: it may have no space, * or >, no "+
			"invisible character, and no empty part between dots", name)
	case len(name) > MaxName:
		return Usage("--cluster-name is %d bytes long; at most %d are allowed", len(name), MaxName)
	}
	return nil
}
