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

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/protocol/text"
)

// ErrNoProgram is returned if no program has a queue in a folder.
var ErrNoProgram = errors.New("no program has an outbox in this folder")

// An Item is a message in the outbox of a program.
type Item struct {
	Program     string       `json:"program"` // tg, matrix, system, broker, chorus or agent-NAME
	ID          int64        `json:"id"`
	Queue       string       `json:"queue"` // of a bridge: telegram or matrix, agents, status, chats or commands
	Bot         int64        `json:"bot"`
	Destination string       `json:"destination"`
	State       outbox.State `json:"state"`
	Attempts    int          `json:"attempts"`
	QueuedAt    time.Time    `json:"queuedAt"`
	NextAt      time.Time    `json:"nextAt,omitzero"` // time of the next attempt
	EndedAt     time.Time    `json:"endedAt,omitzero"`
	Agent       string       `json:"agent,omitempty"` // agent that sent the message
	Text        string       `json:"text,omitempty"`  // beginning of the message
	Error       string       `json:"error,omitempty"` // error of the latest attempt
}

// Name returns the name that Retry and Drop accept.
func (i *Item) Name() string {
	if i.Program == telegram {
		return strconv.FormatInt(i.ID, 10)
	}
	return i.Program + ":" + strconv.FormatInt(i.ID, 10)
}

// List returns the items in the given states, or all items without states. Items are ordered by
// program, the bridges first, and by their order in the queue. The error names the programs whose
// items are missing. It is ErrNoProgram if the folder has no program.
func (f Folder) List(ctx context.Context, states ...outbox.State) (items []Item, err error) {
	if _, err := os.ReadDir(string(f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing programs: %w", err)
	}
	programs := f.programs("")
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

func (k programFiles) list(ctx context.Context, states []outbox.State) (items []Item, err error) {
	err = k.each(ctx, func(q *bridge.Queue) error {
		found, err := q.List(ctx, &outbox.Filter{States: states, Limit: -1})
		for i := range found {
			item, e := k.describe(ctx, q, &found[i])
			items, err = append(items, item), errors.Join(err, e)
		}
		return err
	})
	return items, err
}

func (k programFiles) describe(ctx context.Context, q *bridge.Queue, found *outbox.Item) (item Item, err error) {
	item = Item{
		Program: k.name, ID: found.ID, Queue: q.Name, Bot: q.Bot, Destination: found.Destination, State: found.State,
		Attempts: found.Attempt,
		QueuedAt: found.EnqueuedAt, EndedAt: found.SettledAt, Error: found.Error, Agent: k.name,
	}
	if found.State == outbox.StatePending {
		item.NextAt = found.NotBefore
	}
	if k.name == telegram || k.name == matrix {
		item.Agent, item.Text, err = q.Describe(ctx, found)
		item.Text = text.Clip(item.Text, maxText)
		return item, err
	}
	item.Text = summarize(found.Body)
	if name, ok := strings.CutPrefix(k.name, "agent-"); ok {
		item.Agent = "agent:" + name
	}
	return item, nil
}

// maxText bounds the text of an item of a bridge, in characters.
const maxText = 200

// summarize returns the type and text of a stored message. It returns "" for anything that is not
// a message from the bus, because that may be confidential.
func summarize(body []byte) string {
	var m struct {
		Type    string
		Content json.RawMessage
		Message json.RawMessage // set if the message is stored together with its topic
	}
	if json.Unmarshal(body, &m) != nil {
		return ""
	}
	if m.Type == "" && m.Message != nil {
		return summarize(m.Message)
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
