package chorus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/chorus"
	"hubbub/protocol/notify"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// taskCallback is the callback of a message that is a task: the events for the message change the
// task. No service can name it, since it is not a URL.
const taskCallback = "a2a:task"

// The states of a task, as stored.
const (
	taskSubmitted     = "submitted"
	taskWorking       = "working"
	taskInputRequired = "input_required"
	taskCompleted     = "completed"
	taskFailed        = "failed"
	taskCanceled      = "canceled"
)

// The prefixes of the keys of messages before the answer: interim messages, and questions that a
// person must decide before the turn continues.
const (
	interimKey  = "interim:"
	decisionKey = "decision:"
)

// errTaskOver refuses messages for a task that has ended.
var errTaskOver = errors.New("its task has ended")

// A task is the current state of a message that came over A2A.
type task struct {
	ID       string
	Inbox    InboxName
	Inbound  int64
	Context  string
	State    string
	Text     string
	Interim  bool
	Working  int
	At       time.Time
	Messages []string // the agent's answers
}

func (t *task) columns() []any {
	return []any{&t.ID, &t.Inbox, &t.Inbound, &t.Context, &t.State, &t.Text, &t.Interim, &t.Working,
		store.Micros{Time: &t.At}}
}

const taskColumns = `SELECT id, inbox, inbound, context, state, words, interim, working, at FROM task `

func (t *task) isFinal() bool {
	return t.State == taskCompleted || t.State == taskFailed || t.State == taskCanceled
}

// awaitsSender reports whether only another message from its sender, if anything, can change a
// task.
func (t *task) awaitsSender() bool { return t.isFinal() || t.State == taskInputRequired }

// loadTask returns a task of an inbox with its answers so far.
func loadTask(tx *store.Tx, inbox InboxName, id string) *task {
	t := one(tx, sdk.ErrTaskNotFound, (*task).columns, taskColumns+`WHERE id = ? AND inbox = ?`, id, inbox)
	t.Messages = store.All(tx, store.Scalar[string], `SELECT text FROM artifact WHERE task = ? ORDER BY seq`, id)
	return &t
}

// A taskList stores the tasks of A2A.
type taskList struct {
	g       *Gateway
	changed notify.Broadcast
}

// submit stores a message as a task, or as the next message of the task taskID. If it is
// already stored, it is the same task.
func (l *taskList) submit(ctx context.Context, in *inboundMessage, taskID string) (id string, err error) {
	err = l.g.accept(ctx, in, func(tx *store.Tx, seq int64) {
		if id = store.Value[string](
			tx,
			`SELECT task FROM task_message WHERE inbound = ?`,
			seq,
		); id != "" ||
			tx.Err() != nil {
			return
		}
		if id = taskID; taskID == "" {
			id = string(in.messageID)
			tx.Exec(`INSERT INTO task (id, inbox, inbound, context, state, at) VALUES (?, ?, ?, ?, ?, ?)`,
				id, in.inbox, seq, in.posted.ChannelID, taskSubmitted, micros(l.g.opts.Now()))
		} else if t := loadTask(tx, in.inbox, taskID); tx.Err() == nil && t.State != taskInputRequired {
			tx.Fail(
				sdk.NewError(sdk.ErrUnsupportedOperation,
					"this task expects no message: send the next message with its contextId only"),
			)
		} else if tx.Err() == nil {
			t.State, t.Text = taskWorking, ""
			l.save(tx, t)
		}
		tx.Exec(`INSERT INTO task_message (inbound, task) VALUES (?, ?)`, seq, id)
	})
	return id, err
}

// advance changes a task according to an event from its agent.
func (l *taskList) advance(ctx context.Context, p *pendingEvent) error {
	return store.InTx(ctx, l.g.store.db, func(tx *store.Tx) {
		t := one(
			tx,
			outbox.Permanent(errNotKept),
			(*task).columns,
			taskColumns+`WHERE id = (SELECT task FROM task_message WHERE inbound = ?)`,
			p.Inbound,
		)
		if tx.Err() != nil {
			return
		}
		if t.isFinal() {
			if p.Reply != "" {
				tx.Fail(outbox.Permanent(errTaskOver))
			}
			return
		}
		var text string
		_ = json.Unmarshal(p.Event.Content, &text) //nolint:errcheck // it was written as a string
		switch e := p.Event; {
		case e.Type == chorus.EventMessage && p.Asks:
			t.State, t.Text, t.Interim = taskInputRequired, text, false
		// the outcome of a question
		case e.Type == chorus.EventMessage && p.Edits != "" && !strings.HasPrefix(p.Edits, interimKey):
			t.State, t.Text = taskWorking, ""
		case e.Type == chorus.EventMessage && strings.HasPrefix(p.Key, interimKey):
			t.State, t.Text, t.Interim = taskWorking, text, true
		case e.Type == chorus.EventMessage:
			tx.Exec(`INSERT INTO artifact (task, text) VALUES (?, ?)`, t.ID, text)
			t.Text, t.Interim = "", false
		case e.Type == chorus.EventError:
			if t.Text = e.Message; e.Code != codeNoAgent {
				t.State = taskFailed
			}
		case e.Type == chorus.EventStatus && t.State != taskInputRequired:
			t.State, t.Text = taskWorking, e.Status
		case e.Type == chorus.EventLifecycle && e.Status == lifecycleProcessing:
			t.State, t.Interim, t.Working = taskWorking, false, t.Working+1
		case e.Type == chorus.EventLifecycle:
			if t.Working = max(0, t.Working-1); t.Working == 0 && !t.Interim && t.State != taskInputRequired {
				t.State = taskCompleted
			}
		}
		l.save(tx, &t)
	})
}

func (l *taskList) save(tx *store.Tx, t *task) {
	tx.Exec(
		`UPDATE task SET state = ?, words = ?, interim = ?, working = ?, at = ? WHERE id = ?`,
		t.State,
		t.Text,
		t.Interim,
		t.Working,
		micros(l.g.opts.Now()),
		t.ID,
	)
	tx.OnCommit(l.changed.Notify)
}

// cancel lets the agent withdraw its turn, as if the message was deleted.
func (l *taskList) cancel(ctx context.Context, inbox InboxName, id string) error {
	return store.InTx(ctx, l.g.store.db, func(tx *store.Tx) {
		t := loadTask(tx, inbox, id)
		if tx.Err() == nil && t.isFinal() {
			tx.Fail(sdk.ErrTaskNotCancelable)
		}
		if tx.Err() != nil {
			return
		}
		type inboundSource struct {
			channel protocol.PeerID
			source  string
			content []byte
		}
		was, _ := store.One(tx, func(s *inboundSource) []any { return []any{&s.channel, &s.source, &s.content} },
			`SELECT channel, source_id, content FROM inbound WHERE seq = ?`, t.Inbound)
		var m protocol.ChatMessage
		tx.Fail(json.Unmarshal(was.content, &m))
		m.Event, m.Text = protocol.EventDelete, ""
		raw, err := json.Marshal(m)
		tx.Fail(err)
		seq := store.Value[int64](
			tx,
			`INSERT INTO inbound (channel, external_id, source_id, message_id, content, received_at)
			VALUES (?, ?, ?, ?, ?, ?) RETURNING seq`,
			was.channel,
			"cancel "+id,
			was.source,
			protocol.NewMessageID(),
			raw,
			micros(l.g.opts.Now()),
		)
		l.g.router.Deliver(tx, &bridge.Event{ID: seq, Chat: was.channel, Source: was.source}, time.Time{})
		t.State, t.Text = taskCanceled, ""
		l.save(tx, t)
	})
}

// toA2A converts a task for A2A.
func (t *task) toA2A() *sdk.Task {
	out := &sdk.Task{ID: sdk.TaskID(t.ID), ContextID: t.Context, Status: t.status()}
	for n := range t.Messages {
		out.Artifacts = append(out.Artifacts, t.artifact(n))
	}
	return out
}

func (t *task) artifact(n int) *sdk.Artifact {
	return &sdk.Artifact{
		ID:    sdk.ArtifactID(fmt.Sprint("answer-", n+1)),
		Parts: sdk.ContentParts{sdk.NewTextPart(t.Messages[n])},
	}
}

func (t *task) status() sdk.TaskStatus {
	s := sdk.TaskStatus{State: sdk.TaskState("TASK_STATE_" + strings.ToUpper(t.State)), Timestamp: &t.At}
	if t.Text != "" {
		s.Message = sdk.NewMessageForTask(sdk.MessageRoleAgent, t, sdk.NewTextPart(t.Text))
		s.Message.ID = t.ID + " " + t.State
	}
	return s
}

// TaskInfo implements sdk.TaskInfoProvider.
func (t *task) TaskInfo() sdk.TaskInfo {
	return sdk.TaskInfo{TaskID: sdk.TaskID(t.ID), ContextID: t.Context}
}

// messageText joins the text of a message. Raw files are not supported.
func messageText(m *sdk.Message) (string, error) {
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
			return "", sdk.NewError(sdk.ErrUnsupportedContentType, "files are accepted only by their address")
		}
	}
	return strings.Join(all, "\n"), nil
}
