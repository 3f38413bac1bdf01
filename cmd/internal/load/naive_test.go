package load

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/activitylog"

	"github.com/coder/websocket"
	_ "modernc.org/sqlite"
)

// The naive bus is the one that a good programmer writes first: the same protocol and the same
// log, with the libraries in their most straightforward use. Each message has a goroutine, and
// each delivery has a channel and a context with a timeout. Frames go through encoding/json and
// are written one by one. Rows are inserted one by one through database/sql, in transactions of
// up to naiveBatch.
type naiveBus struct {
	rows chan naiveRow

	mu    sync.RWMutex // guards peers
	peers map[*naivePeer]struct{}
}

type naivePeer struct {
	conn *websocket.Conn
	next atomic.Uint64

	mu       sync.Mutex // guards the fields below
	id       string
	patterns []string
	calls    map[string]chan naiveFrame
}

type naiveFrame struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

type naiveMessage struct {
	Topic   string          `json:"topic"`
	Payload json.RawMessage `json:"payload"`
}

type naiveHead struct {
	MessageID string `json:"messageId"`
	Type      string `json:"type"`
	From      string `json:"from"`
}

type naiveAnswer struct {
	Accepted    bool   `json:"accepted"`
	MessageID   string `json:"messageId"`
	DeliveredTo int    `json:"deliveredTo"`
}

type naiveRow struct {
	at                                          time.Time
	event                                       activitylog.Event
	message, rpc, actor, topic, status, payload string
}

const (
	naiveTimeout = 30 * time.Second
	naiveBatch   = 1000
)

// naiveSchema is the table of the specification, with an index for each common search.
const naiveSchema = `CREATE TABLE activity_log (
	id INTEGER PRIMARY KEY AUTOINCREMENT, ts TEXT NOT NULL, event TEXT NOT NULL, message_id TEXT NOT NULL, rpc_id TEXT,
	actor TEXT, topic TEXT, status TEXT, payload_json TEXT, error TEXT, bus TEXT);
CREATE INDEX idx_activity_message_id ON activity_log(message_id);
CREATE INDEX idx_activity_ts ON activity_log(ts);`

// countNaive returns how many messages the naive log has with their four rows.
func countNaive(ctx context.Context, file string) (n int64, err error) {
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	const complete = `SELECT count(*) FROM (SELECT 1 FROM activity_log GROUP BY message_id
		HAVING sum(event = 'send_start') = 1 AND sum(event = 'send_finish') = 1
		AND sum(event = 'process_start') >= 1 AND sum(event = 'process_start') = sum(event = 'process_finish'))`
	err = db.QueryRowContext(ctx, complete).Scan(&n)
	return n, err
}

// serveNaive serves a naive bus with its log at path until ctx ends.
func serveNaive(ctx context.Context, listener net.Listener, file string) error {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, naiveSchema); err != nil {
		return err
	}
	b := &naiveBus{rows: make(chan naiveRow, naiveBatch), peers: map[*naivePeer]struct{}{}}
	logged := make(chan error, 1)
	go func() { logged <- b.log(db) }()
	var sessions sync.WaitGroup
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sessions.Add(1)
		defer sessions.Done()
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		b.serve(ctx, &naivePeer{conn: conn, calls: map[string]chan naiveFrame{}})
	})}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	err = server.Serve(listener)
	sessions.Wait()
	close(b.rows)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, <-logged)
}

// serve reads one peer's frames until its connection or ctx ends.
func (b *naiveBus) serve(ctx context.Context, p *naivePeer) {
	b.mu.Lock()
	b.peers[p] = struct{}{}
	b.mu.Unlock()
	var messages sync.WaitGroup
	defer func() {
		b.mu.Lock()
		delete(b.peers, p)
		b.mu.Unlock()
		p.conn.CloseNow()
		messages.Wait()
	}()
	for {
		_, data, err := p.conn.Read(ctx)
		if err != nil {
			return
		}
		var f naiveFrame
		if json.Unmarshal(data, &f) != nil {
			return
		}
		switch f.Method {
		case "":
			p.answered(f)
		case "sendMessage":
			messages.Go(func() { b.publish(ctx, p, f) })
		case "initialize":
			var params struct{ ClientID string }
			json.Unmarshal(f.Params, &params)
			p.mu.Lock()
			p.id = params.ClientID
			p.mu.Unlock()
			p.write(ctx, naiveFrame{ID: f.ID, Result: json.RawMessage(`{"serverId":"naive"}`)})
		case "subscribe":
			var params struct{ Topic string }
			json.Unmarshal(f.Params, &params)
			p.mu.Lock()
			p.patterns = append(p.patterns, params.Topic)
			p.mu.Unlock()
			p.write(ctx, naiveFrame{ID: f.ID, Result: json.RawMessage(`{"success":true}`)})
		}
	}
}

func (p *naivePeer) write(ctx context.Context, f naiveFrame) error {
	f.JSONRPC = "2.0"
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, naiveTimeout)
	defer cancel()
	return p.conn.Write(ctx, websocket.MessageText, data)
}

// matches reports whether the peer subscribed to the topic, and its id.
func (p *naivePeer) matches(topic string) (id string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pattern := range p.patterns {
		if ok, err := path.Match(pattern, topic); ok && err == nil {
			return p.id, true
		}
	}
	return "", false
}

// publish delivers a message to all subscribers and answers when all have.
func (b *naiveBus) publish(ctx context.Context, from *naivePeer, f naiveFrame) {
	var m naiveMessage
	var head naiveHead
	if json.Unmarshal(f.Params, &m) != nil || json.Unmarshal(m.Payload, &head) != nil {
		return
	}
	row := naiveRow{message: head.MessageID, rpc: string(f.ID), actor: head.From, topic: m.Topic}
	b.record(row, activitylog.SendStart, "start", string(m.Payload))
	var delivering sync.WaitGroup
	var delivered atomic.Int64
	b.mu.RLock()
	for p := range b.peers {
		if id, ok := p.matches(m.Topic); ok {
			delivering.Go(func() {
				if b.deliver(ctx, p, id, m, head) {
					delivered.Add(1)
				}
			})
		}
	}
	b.mu.RUnlock()
	delivering.Wait()
	result, err := json.Marshal(naiveAnswer{true, head.MessageID, int(delivered.Load())})
	if err != nil {
		return
	}
	b.record(row, activitylog.SendFinish, "ok", string(result))
	from.write(ctx, naiveFrame{ID: f.ID, Result: result})
}

// deliver sends a message to one peer and waits for its answer.
func (b *naiveBus) deliver(ctx context.Context, p *naivePeer, id string, m naiveMessage, head naiveHead) bool {
	call := strconv.FormatUint(p.next.Add(1), 10)
	row := naiveRow{message: head.MessageID, rpc: call, actor: id, topic: m.Topic}
	b.record(row, activitylog.ProcessStart, "start", "")
	answer := make(chan naiveFrame, 1)
	p.mu.Lock()
	p.calls[call] = answer
	p.mu.Unlock()
	params, err := json.Marshal(m)
	if err == nil {
		err = p.write(ctx, naiveFrame{ID: json.RawMessage(call), Method: "processMessage", Params: params})
	}
	ctx, cancel := context.WithTimeout(ctx, naiveTimeout)
	defer cancel()
	status, payload := "timeout", ""
	var result struct{ Processed bool }
	select {
	case f := <-answer:
		status, payload = "ok", string(f.Result)
		if f.Error != nil || json.Unmarshal(f.Result, &result) != nil || !result.Processed {
			status = "error"
		}
	case <-ctx.Done():
	}
	b.record(row, activitylog.ProcessFinish, status, payload)
	return err == nil && status == "ok"
}

func (p *naivePeer) answered(f naiveFrame) {
	p.mu.Lock()
	answer := p.calls[string(f.ID)]
	delete(p.calls, string(f.ID))
	p.mu.Unlock()
	if answer != nil {
		answer <- f
	}
}

func (b *naiveBus) record(r naiveRow, event activitylog.Event, status, payload string) {
	r.at, r.event, r.status, r.payload = time.Now(), event, status, payload
	b.rows <- r
}

// log inserts rows until there will be no more. One transaction takes what is
// there, at most naiveBatch rows.
func (b *naiveBus) log(db *sql.DB) error {
	for r := range b.rows {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		insert, err := tx.Prepare(`INSERT INTO activity_log (ts, event, message_id, rpc_id, actor, topic, status, payload_json, bus)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'naive')`)
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		for n, ok := 0, true; ok; n++ {
			if _, err := insert.Exec(r.at.UTC().Format("2006-01-02T15:04:05.000000Z"), r.event.String(), r.message, r.rpc, r.actor, r.topic, r.status, r.payload); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			if n == naiveBatch {
				break
			}
			select {
			case r, ok = <-b.rows:
			default:
				ok = false
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}
