package main

import (
	"context"
	"errors"
	"os"
	"sync"

	"hubbub/activitylog"
	"hubbub/activitylog/otlp"
	"hubbub/activitylog/write"
	"hubbub/bus"
	"hubbub/bus/cluster"
	"hubbub/cmd/internal/program"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// clusterSettings are the flags of a bus in a cluster.
type clusterSettings struct {
	URLs   []string `flag:"cluster,split" usage:"NATS server that joins several buses into one, such as nats://10.0.0.1:4222 (repeatable)"`
	Prefix string   `flag:"cluster-name" default:"hubbub" usage:"name of the cluster: the prefix of its subjects"`
	Creds  string   `flag:"cluster-creds" usage:"NATS credentials file"`
	CA     string   `flag:"cluster-ca" usage:"file of the certificate authorities (PEM) trusted to sign the NATS server's certificate"`
	Cert   string   `flag:"cluster-cert" usage:"certificate file (PEM) to show to the NATS server"`
	Key    string   `flag:"cluster-key" usage:"key file (PEM) of --cluster-cert"`
	Stream string   `flag:"activity-stream" usage:"JetStream stream that keeps a copy of the activity rows"`
}

// joined has the parts that run alongside a bus in a cluster.
type joined struct {
	runs   []func(context.Context) error
	ctx    context.Context
	stop   context.CancelFunc // ends the parts
	failed context.CancelFunc // ends the bus
	wg     sync.WaitGroup
	mu     sync.Mutex // guards errs
	errs   []error
}

// join adds the cluster to the options of the bus and of its log. Without --cluster it adds
// nothing.
func (c *clusterSettings) join(o *bus.Options, log *write.Options, logger *zerolog.Logger) (*joined, error) {
	j := &joined{}
	j.ctx, j.stop = context.WithCancel(context.Background())
	if len(c.URLs) == 0 {
		if c.Stream != "" {
			return nil, program.Usage("--activity-stream needs --cluster")
		}
		return j, nil
	}
	options := &cluster.Options{Prefix: c.Prefix, Log: logger, NATS: c.nats()}
	member := cluster.New(c.URLs, o.Name, options)
	o.Cluster = member
	j.runs = append(j.runs, member.Run)
	if c.Stream != "" {
		copied := cluster.NewActivityStream(c.URLs, c.Stream, o.Name, options)
		log.OnCommit = copied.Enqueue
		j.runs = append(j.runs, copied.Run)
	}
	return j, nil
}

func (c *clusterSettings) nats() []nats.Option {
	var list []nats.Option
	if c.Creds != "" {
		list = append(list, nats.UserCredentials(c.Creds))
	}
	if c.CA != "" {
		list = append(list, nats.RootCAs(c.CA))
	}
	if c.Cert != "" {
		list = append(list, nats.ClientCert(c.Cert, c.Key))
	}
	return list
}

// start runs the parts, once the bus exists. A failing part ends the bus: it fails only if its
// settings are unusable, and a bus of a cluster must not silently stay alone.
func (j *joined) start() {
	for _, run := range j.runs {
		j.wg.Go(func() {
			if err := run(j.ctx); err != nil {
				j.mu.Lock()
				defer j.mu.Unlock()
				j.errs = append(j.errs, err)
				j.failed()
			}
		})
	}
}

// wait waits for the parts and returns their errors.
func (j *joined) wait() error {
	j.wg.Wait()
	return errors.Join(j.errs...)
}

// exportSpans adds the export of traces if the standard OTEL_ variables ask for it.
func (j *joined) exportSpans(log *write.Options, logger *zerolog.Logger) error {
	s, err := otlp.FromEnv(os.Getenv)
	switch {
	case err != nil:
		return program.Usage("%s", err)
	case s.Endpoint == "":
		return nil
	}
	e := otlp.New(s, logger)
	next := log.OnCommit
	log.OnCommit = func(firstID int64, rows []activitylog.Row) {
		if next != nil {
			next(firstID, rows)
		}
		e.Offer(firstID, rows)
	}
	j.runs = append(j.runs, e.Run)
	return nil
}
