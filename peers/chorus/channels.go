package chorus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
)

// Limits on the work for channels.
const (
	maxWorking  = 1024             // channels that are worked on at once; others wait in the database
	scanEvery   = 5 * time.Second  // how often the database is asked for channels that nobody poked
	sendTimeout = 45 * time.Second // longer than the bus waits for a peer
	maxDeclined = 10               // a message that an agent declines so often is given up
)

// channels runs one worker for every channel in which messages wait.
type channels struct {
	g      *Gateway
	signal chan struct{}

	mu      sync.Mutex
	working map[protocol.PeerID]chan struct{} // what wakes a worker
	poked   map[protocol.PeerID]bool
	offered map[protocol.PeerID]int64 // the message that is being handed over
}

func newChannels(g *Gateway) *channels {
	return &channels{
		g: g, signal: make(chan struct{}, 1),
		working: map[protocol.PeerID]chan struct{}{}, poked: map[protocol.PeerID]bool{}, offered: map[protocol.PeerID]int64{},
	}
}

// note makes sure that a channel has a worker: a message has come. A worker that
// waits for its next attempt goes on waiting. It never blocks; the set of noted
// channels is bounded by the channels that exist.
func (c *channels) note(peer protocol.PeerID) {
	c.mu.Lock()
	c.poked[peer] = true
	c.mu.Unlock()
	c.look()
}

// poke makes a channel's worker try again now: what it waits for has come.
func (c *channels) poke(peer protocol.PeerID) {
	c.mu.Lock()
	if wake, ok := c.working[peer]; ok {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	c.mu.Unlock()
	c.note(peer)
}

// pokeAll wakes every worker: the bus is back.
func (c *channels) pokeAll() {
	c.mu.Lock()
	for _, wake := range c.working {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	c.mu.Unlock()
	c.look()
}

func (c *channels) look() {
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// run starts workers until ctx ends, and returns when the last one has ended.
func (c *channels) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ticker := time.NewTicker(scanEvery)
	defer ticker.Stop()
	for {
		waiting, err := c.waiting(ctx)
		if err != nil && ctx.Err() == nil {
			c.g.log.Error().Err(err).Msg("channels cannot be read; trying again")
		}
		for _, peer := range waiting {
			wake, ok := c.start(peer)
			if !ok {
				continue
			}
			wg.Go(func() {
				c.work(ctx, peer, wake)
				c.end(peer)
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.signal:
		case <-ticker.C:
		}
	}
}

// start takes a place for a channel's worker.
func (c *channels) start(peer protocol.PeerID) (wake chan struct{}, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, running := c.working[peer]; running || len(c.working) >= maxWorking {
		return nil, false
	}
	delete(c.poked, peer)
	wake = make(chan struct{}, 1)
	c.working[peer] = wake
	return wake, true
}

// end gives the place back. A channel that was poked while its worker ended is
// looked at again.
func (c *channels) end(peer protocol.PeerID) {
	c.mu.Lock()
	delete(c.working, peer)
	full := len(c.working) >= maxWorking-1
	again := c.poked[peer] || full
	delete(c.poked, peer)
	c.mu.Unlock()
	if again {
		c.look()
	}
}

// offer notes which message of a channel is being handed over; 0 for none.
func (c *channels) offer(peer protocol.PeerID, seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq == 0 {
		delete(c.offered, peer)
		return
	}
	c.offered[peer] = seq
}

// inFlight returns the message of a channel that is being handed over, or 0.
func (c *channels) inFlight(peer protocol.PeerID) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offered[peer]
}

// waiting lists the channels in which messages wait, the longest first.
func (c *channels) waiting(ctx context.Context) ([]protocol.PeerID, error) {
	rows, err := c.g.store.db.QueryContext(ctx, `SELECT channel FROM inbound WHERE forwarded_at = 0
		GROUP BY channel ORDER BY min(seq) LIMIT ?`, 2*maxWorking)
	if err != nil {
		return nil, fmt.Errorf("listing waiting channels: %w", err)
	}
	defer rows.Close()
	var list []protocol.PeerID
	for rows.Next() {
		var peer protocol.PeerID
		if err := rows.Scan(&peer); err != nil {
			return nil, fmt.Errorf("listing waiting channels: %w", err)
		}
		list = append(list, peer)
	}
	return list, rows.Err()
}

// A worker takes one channel through its steps until nothing waits in it.
type worker struct {
	*Gateway
	channel  protocol.PeerID
	began    time.Time // of the wait for an agent to take the oldest message
	askedAt  time.Time // when a spawn request was taken; zero: none
	failures int       // steps that failed in a row
	declined int       // times in a row that the agent declined the oldest message
}

func (c *channels) work(ctx context.Context, peer protocol.PeerID, wake <-chan struct{}) {
	w := &worker{Gateway: c.g, channel: peer, began: c.g.store.now()}
	for ctx.Err() == nil {
		wait, err := w.advance(ctx)
		if err != nil && ctx.Err() == nil {
			w.failures++
			wait = stepDelay(w.failures)
			w.log.Debug().Err(err).Str("peer", string(peer)).Dur("wait", wait).Msg("a step failed; trying again")
		} else if err == nil {
			w.failures = 0
		}
		if wait < 0 {
			return
		}
		if wait == 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// advance takes the next step. A negative wait means that the channel rests.
func (w *worker) advance(ctx context.Context) (wait time.Duration, err error) {
	s, err := w.standing(ctx)
	if err != nil {
		return 0, err
	}
	what, wait := nextStep(s)
	if s.waiting && w.store.now().Sub(w.began) > patience {
		if err := w.tellNoAgent(ctx, w.channel, "no agent could be reached yet; the message is kept"); err != nil {
			return 0, err
		}
	}
	switch what {
	case stepRest:
		return -1, nil
	case stepAwait:
		return wait, nil
	case stepSpawn:
		return 0, w.spawn(ctx)
	case stepConfigure:
		return 0, w.configure(ctx, s.agent)
	default:
		return 0, w.forward(ctx, s.agent)
	}
}

func (w *worker) standing(ctx context.Context) (standing, error) {
	var s standing
	err := w.store.db.QueryRowContext(ctx, `SELECT agent, configured,
		EXISTS (SELECT 1 FROM inbound WHERE channel = peer AND forwarded_at = 0)
		FROM channel WHERE peer = ?`, w.channel).Scan(&s.agent, &s.configured, &s.waiting)
	if errors.Is(err, sql.ErrNoRows) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("reading a channel: %w", err)
	}
	s.asked = !w.askedAt.IsZero()
	s.sinceAsked = w.store.now().Sub(w.askedAt)
	return s, nil
}

// spawn asks the spawner for an agent. The request keeps its id until an agent
// is assigned.
func (w *worker) spawn(ctx context.Context) error {
	request, err := w.store.spawnRequest(ctx, w.channel)
	if err != nil {
		return err
	}
	m := protocol.NewMessage(protocol.TypeSpawnRequest, w.channel,
		protocol.SpawnRequest{Topic: w.channel.Topic(), RequestID: request})
	got, err := w.tell(ctx, protocol.TopicSpawn, m)
	if err != nil {
		return err
	}
	if got != received {
		return fmt.Errorf("no spawner took the request: it is %s", got)
	}
	w.askedAt = w.store.now()
	return nil
}

// spawnRequest returns the id of the channel's open spawn request, making one.
func (s *Store) spawnRequest(ctx context.Context, channel protocol.PeerID) (id string, err error) {
	err = s.db.QueryRowContext(ctx, `UPDATE channel SET request_id = CASE request_id WHEN '' THEN ? ELSE request_id END
		WHERE peer = ? RETURNING request_id`, "req_"+ulid.Make().String(), channel).Scan(&id)
	if err != nil {
		return "", fmt.Errorf("storing a spawn request: %w", err)
	}
	return id, nil
}

func (w *worker) configure(ctx context.Context, agent protocol.PeerID) error {
	m := protocol.NewMessage(protocol.TypeConfigure, w.channel, protocol.Configure{TalkTo: w.channel.Topic()})
	got, err := w.tell(ctx, agent.Topic(), m)
	if err != nil {
		return err
	}
	if got == absent {
		return w.missing(ctx, agent)
	}
	if got != received {
		return fmt.Errorf("%s did not take its configuration: it is %s", agent, got)
	}
	_, err = w.store.db.ExecContext(ctx, `UPDATE channel SET configured = 1, told = 0 WHERE peer = ? AND agent = ?`, w.channel, agent)
	if err != nil {
		return fmt.Errorf("storing a configuration: %w", err)
	}
	return nil
}
