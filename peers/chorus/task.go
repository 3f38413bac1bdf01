package chorus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/surface"
	"hubbub/protocol"
	"hubbub/protocol/chorus"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// taskCallback stands in the place of a callback: what an agent says and does for the message
// goes to the task that the message is. No service can name it: it is no URL.
const taskCallback = "a2a:task"

// The states of a task, as they are stored.
const (
	taskSubmitted = "submitted"
	taskWorking   = "working"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCanceled  = "canceled"
)

// interimKey begins the keys of what agents say on the way to an answer.
const interimKey = "interim:"

// errTaskOver refuses what comes after the end of a task.
var errTaskOver = errors.New("its task has ended")

// A task is a message that came over A2A, as it stands.
type task struct {
	ID       string
	Inbox    InboxName
	Inbound  int64
	Context  string
	State    string
	Words    string
	Interim  bool
	At       moment
	Messages []string // what the agent answered
}

func (t *task) columns() []any {
	return []any{&t.ID, &t.Inbox, &t.Inbound, &t.Context, &t.State, &t.Words, &t.Interim, &t.At}
}

const taskColumns = `SELECT id, inbox, inbound, context, state, words, interim, at FROM task `

func (t *task) over() bool {
	return t.State == taskCompleted || t.State == taskFailed || t.State == taskCanceled
}

// A news tells those who wait that a task has changed, whichever.
type news struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed at the next change.
func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}

// taskOf returns a task of an inbox with what was answered so far.
func taskOf(tx *store.Tx, inbox InboxName, id string) *task {
	t := one(tx, sdk.ErrTaskNotFound, (*task).columns, taskColumns+`WHERE id = ? AND inbox = ?`, id, inbox)
	t.Messages = store.All(tx, store.Itself[string], `SELECT text FROM artifact WHERE task = ? ORDER BY seq`, id)
	return &t
}

// submit stores a message as a task. One that was stored before is the same task.
func (g *Gateway) submit(ctx context.Context, in *inbound) (id string, err error) {
	if err := g.accept(ctx, in); err != nil {
		return "", err
	}
	err = store.InTx(ctx, g.store.db, func(tx *store.Tx) {
		seq := store.Value[int64](tx, `SELECT seq FROM inbound WHERE channel = ? AND external_id = ?`, in.channel, in.posted.MessageID)
		tx.Exec(`INSERT OR IGNORE INTO task (id, inbox, inbound, context, state, at) VALUES (?, ?, ?, ?, ?, ?)`,
			in.messageID, in.inbox, seq, in.posted.ChannelID, taskSubmitted, micros(g.opts.Now()))
		id = store.Value[string](tx, `SELECT id FROM task WHERE inbound = ?`, seq)
	})
	return id, err
}

// advance lets a task go on by what its agent says and does.
func (g *Gateway) advance(ctx context.Context, p *pendingEvent) error {
	return store.InTx(ctx, g.store.db, func(tx *store.Tx) {
		t := one(tx, outbox.Permanent(errForgotten), (*task).columns, taskColumns+`WHERE inbound = ?`, p.Inbound)
		if tx.Err() != nil {
			return
		}
		if t.over() {
			if p.Reply != "" {
				tx.Fail(outbox.Permanent(errTaskOver))
			}
			return
		}
		var said string
		_ = json.Unmarshal(p.Event.Content, &said) //nolint:errcheck // it was written as a string
		switch e := p.Event; {
		case e.Type == chorus.EventMessage && strings.HasPrefix(p.Key, interimKey):
			t.State, t.Words, t.Interim = taskWorking, said, true
		case e.Type == chorus.EventMessage:
			tx.Exec(`INSERT INTO artifact (task, text) VALUES (?, ?)`, t.ID, said)
			t.Words, t.Interim = "", false
		case e.Type == chorus.EventError:
			if t.Words = e.Message; e.Code != codeNoAgent {
				t.State = taskFailed
			}
		case e.Type == chorus.EventStatus:
			t.State, t.Words = taskWorking, e.Status
		case e.Type == chorus.EventLifecycle && e.Status == lifecycleProcessing:
			t.State, t.Interim = taskWorking, false
		case e.Type == chorus.EventLifecycle && !t.Interim:
			t.State = taskCompleted
		}
		g.moveTask(tx, &t)
	})
}

func (g *Gateway) moveTask(tx *store.Tx, t *task) {
	tx.Exec(`UPDATE task SET state = ?, words = ?, interim = ?, at = ? WHERE id = ?`, t.State, t.Words, t.Interim, micros(g.opts.Now()), t.ID)
	tx.After(g.tasks.tell)
}

// cancelTask has the agent withdraw its turn: what was said counts as deleted.
func (g *Gateway) cancelTask(ctx context.Context, inbox InboxName, id string) error {
	return store.InTx(ctx, g.store.db, func(tx *store.Tx) {
		t := taskOf(tx, inbox, id)
		if tx.Err() == nil && t.over() {
			tx.Fail(sdk.ErrTaskNotCancelable)
		}
		if tx.Err() != nil {
			return
		}
		type said struct {
			channel protocol.PeerID
			source  string
			content []byte
		}
		was, _ := store.One(tx, func(s *said) []any { return []any{&s.channel, &s.source, &s.content} },
			`SELECT channel, source_id, content FROM inbound WHERE seq = ?`, t.Inbound)
		var m protocol.ChatMessage
		tx.Fail(json.Unmarshal(was.content, &m))
		m.Event, m.Text = protocol.EventDelete, ""
		raw, err := json.Marshal(m)
		tx.Fail(err)
		seq := store.Value[int64](tx, `INSERT INTO inbound (channel, external_id, source_id, message_id, content, received_at)
			VALUES (?, ?, ?, ?, ?, ?) RETURNING seq`, was.channel, "cancel "+id, was.source, protocol.NewMessageID(), raw, micros(g.opts.Now()))
		g.surface.Pass(tx, &surface.Event{ID: seq, Chat: was.channel, Source: was.source}, time.Time{})
		t.State, t.Words = taskCanceled, ""
		g.moveTask(tx, t)
	})
}

// asTask returns a task in the words of A2A.
func (t *task) asTask() *sdk.Task {
	out := &sdk.Task{ID: sdk.TaskID(t.ID), ContextID: t.Context, Status: t.status()}
	for n := range t.Messages {
		out.Artifacts = append(out.Artifacts, t.artifact(n))
	}
	return out
}

func (t *task) artifact(n int) *sdk.Artifact {
	return &sdk.Artifact{ID: sdk.ArtifactID(fmt.Sprint("answer-", n+1)), Parts: sdk.ContentParts{sdk.NewTextPart(t.Messages[n])}}
}

func (t *task) status() sdk.TaskStatus {
	at := time.Time(t.At)
	s := sdk.TaskStatus{State: sdk.TaskState("TASK_STATE_" + strings.ToUpper(t.State)), Timestamp: &at}
	if t.Words != "" {
		s.Message = sdk.NewMessageForTask(sdk.MessageRoleAgent, t, sdk.NewTextPart(t.Words))
		s.Message.ID = t.ID + " " + t.State
	}
	return s
}

// TaskInfo implements sdk.TaskInfoProvider.
func (t *task) TaskInfo() sdk.TaskInfo {
	return sdk.TaskInfo{TaskID: sdk.TaskID(t.ID), ContextID: t.Context}
}

// wordsOf joins the text of a message, "" if there is none. What is no text cannot be taken.
func wordsOf(m *sdk.Message) (string, error) {
	var all []string
	for _, p := range m.Parts {
		if p == nil {
			continue
		}
		switch content := p.Content.(type) {
		case sdk.Text:
			all = append(all, string(content))
		case sdk.Data:
			raw, err := json.Marshal(content.Value)
			if err != nil {
				return "", sdk.ErrUnsupportedContentType
			}
			all = append(all, string(raw))
		case sdk.URL:
			all = append(all, cmp.Or(p.Filename, "a file")+": "+string(content))
		default:
			return "", sdk.NewError(sdk.ErrUnsupportedContentType, "files are taken by their address alone")
		}
	}
	return strings.Join(all, "\n"), nil
}
