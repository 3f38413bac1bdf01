package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/tg"
	"hubbub/protocol/text"
)

// ErrNoProgram says that no program keeps a queue in a folder.
var ErrNoProgram = errors.New("no program keeps messages in this folder")

// An Item is a message of one program's outbox.
type Item struct {
	Program     string       `json:"program"` // tg, system, broker, chorus, agent-NAME
	ID          int64        `json:"id"`
	Queue       string       `json:"queue"` // of tg: telegram, agents, status or chats
	Bot         int64        `json:"bot"`
	Destination string       `json:"destination"`
	State       outbox.State `json:"state"`
	Attempts    int          `json:"attempts"`
	QueuedAt    time.Time    `json:"queuedAt"`
	NextAt      time.Time    `json:"nextAt,omitzero"` // of the next attempt
	EndedAt     time.Time    `json:"endedAt,omitzero"`
	Agent       string       `json:"agent,omitempty"` // whose message it is
	Text        string       `json:"text,omitempty"`  // its beginning
	Error       string       `json:"error,omitempty"` // of the last attempt
}

// Name is what Retry and Drop take.
func (i *Item) Name() string {
	if i.Program == bridge {
		return strconv.FormatInt(i.ID, 10)
	}
	return i.Program + ":" + strconv.FormatInt(i.ID, 10)
}

// List returns the items in the given states, or in any: program by program,
// the bridge's first, each queue in its order. Its error says which programs'
// items are missing; it is ErrNoProgram where there is none at all.
func (f Folder) List(ctx context.Context, states ...outbox.State) (items []Item, err error) {
	if _, err := os.ReadDir(string(f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for programs: %w", err)
	}
	programs := f.keepers("")
	if len(programs) == 0 {
		return nil, fmt.Errorf("%w: %s; name another with --data", ErrNoProgram, string(f))
	}
	var unread []error
	for _, program := range programs {
		found, err := program.list(ctx, states)
		if err != nil {
			unread = append(unread, fmt.Errorf("the outbox of %s cannot be read: %w", program.name, err))
			continue
		}
		items = append(items, found...)
	}
	return items, errors.Join(unread...)
}

func (k keeper) list(ctx context.Context, states []outbox.State) (items []Item, err error) {
	err = k.each(ctx, func(q *tg.Queue) error {
		found, err := q.List(ctx, &outbox.Filter{States: states, Limit: -1})
		for i := range found {
			item, e := k.describe(ctx, q, &found[i])
			items, err = append(items, item), errors.Join(err, e)
		}
		return err
	})
	return items, err
}

func (k keeper) describe(ctx context.Context, q *tg.Queue, found *outbox.Item) (item Item, err error) {
	item = Item{
		Program: k.name, ID: found.ID, Queue: q.Name, Bot: q.Bot, Destination: found.Destination, State: found.State, Attempts: found.Attempt,
		QueuedAt: found.EnqueuedAt, EndedAt: found.SettledAt, Error: found.Error, Agent: k.name,
	}
	if found.State == outbox.StatePending {
		item.NextAt = found.NotBefore
	}
	if k.name == bridge {
		item.Agent, item.Text, err = q.Says(ctx, found)
		item.Text = text.Clip(item.Text, maxText)
		return item, err
	}
	item.Text = says(found.Body)
	if name, ok := strings.CutPrefix(k.name, "agent-"); ok {
		item.Agent = "agent:" + name
	}
	return item, nil
}

// maxText bounds the text of a bridge's item, in characters.
const maxText = 200

// says is what a stored message is about. What is no message of the bus says
// nothing: it may hold what is not for eyes.
func says(body []byte) string {
	var m struct {
		Type    string
		Content json.RawMessage
		Message json.RawMessage // of one that stands beside its topic
	}
	if json.Unmarshal(body, &m) != nil {
		return ""
	}
	if m.Type == "" && m.Message != nil {
		return says(m.Message)
	}
	if m.Type == "" {
		return ""
	}
	var content struct{ Text string }
	if json.Unmarshal(m.Content, &content) == nil && content.Text != "" {
		return m.Type + ": " + content.Text
	}
	return strings.TrimSpace(m.Type + " " + string(m.Content))
}
