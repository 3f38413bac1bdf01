package letters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"hubbub/peers/outbox"
	"hubbub/peers/tg"
)

// ErrNoProgram says that no program keeps a queue in a folder.
var ErrNoProgram = errors.New("no program keeps messages in this folder")

// An Item is a message of one program's outbox.
type Item struct {
	Program string `json:"program"` // tg, system, broker, chorus, agent-NAME
	tg.Waiting
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
	programs := f.programs()
	if len(programs) == 0 {
		return nil, fmt.Errorf("%w: %s; name another with --data", ErrNoProgram, string(f))
	}
	var unread []error
	for _, program := range programs {
		found, err := f.list(ctx, program, states)
		if err != nil {
			unread = append(unread, fmt.Errorf("the outbox of %s cannot be read: %w", program.name, err))
			continue
		}
		items = append(items, found...)
	}
	return items, errors.Join(unread...)
}

func (f Folder) list(ctx context.Context, program keeper, states []outbox.State) (items []Item, err error) {
	if program.name == bridge {
		err = asBridge(program.database, func(q *tg.Queues) error {
			found, err := q.List(ctx, states...)
			for i := range found {
				items = append(items, Item{program.name, found[i]})
			}
			return err
		})
		return items, err
	}
	err = each(ctx, program.database, func(queue string, box *outbox.Outbox) error {
		found, err := box.List(ctx, &outbox.Filter{States: states, Limit: -1})
		for i := range found {
			items = append(items, describe(program.name, queue, &found[i]))
		}
		return err
	})
	return items, err
}

func describe(program, queue string, found *outbox.Item) Item {
	item := Item{program, tg.Describe(found)}
	item.Queue, item.Text = queue, says(found.Body)
	item.Agent = program
	if name, ok := strings.CutPrefix(program, "agent-"); ok {
		item.Agent = "agent:" + name
	}
	return item
}

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
