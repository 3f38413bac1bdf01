package chorus_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/protocol"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// closes lets an agent report that it closed a message without an answer.
func closes(t *testing.T, agent *bustest.Scripted, channel protocol.Topic, source, disposition string) {
	t.Helper()
	report := map[string]any{"event": "disposition", "inReplyTo": source, "disposition": disposition}
	if res := agent.Send(t, channel, protocol.TypeAgentEvent, report); res.DeliveredTo != 1 {
		t.Errorf("the end of %s was not taken: %+v", source, res)
	}
}

// TestTask_EndsWithoutAnAnswer checks that a task ends if the agent closes its message without an
// answer, and that the end of a reminder is not the end of a task.
func TestTask_EndsWithoutAnAnswer(t *testing.T) { eachBinding(t, aTaskIsClosed) }

func aTaskIsClosed(t *testing.T, over binding) {
	r := startNew(t, nil)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	client := r.elsewhere("ops", over)
	const channel = "chorus:ops.c1"
	ask := func(id string, handle func(source string)) *a2a.Task {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var handling sync.WaitGroup
		defer handling.Wait()
		handling.Go(func() { handle(nextChat(t, agent).SourceID) })
		result, err := client.SendMessage(ctx, request("Thanks!", id, "c1"))
		task, _ := result.(*a2a.Task)
		if err != nil || task == nil {
			t.Fatalf("the task %s: %+v, %v", id, result, err)
		}
		return task
	}
	for disposition, want := range map[string]a2a.TaskState{
		"acknowledged": a2a.TaskStateCompleted,
		"superseded":   a2a.TaskStateCompleted,
		"failed":       a2a.TaskStateFailed,
	} {
		task := ask(disposition, func(source string) { closes(t, agent, channel, source, disposition) })
		if task.Status.State != want || len(task.Artifacts) != 0 {
			t.Errorf("a message that is %s makes the task %+v; want it %s", disposition, task, want)
		}
	}
	task := ask("m1", func(source string) {
		closes(t, agent, channel, "reminder:1", "ignored")
		reply := protocol.ChatReply{Text: "You are welcome.", InReplyTo: source, IdempotencyKey: "k1"}
		agent.Send(t, channel, protocol.TypeChatReply, reply)
	})
	if task.Status.State != a2a.TaskStateCompleted || !slices.Equal(answersOf(task.Artifacts), []string{"You are welcome."}) {
		t.Errorf("the task with an answer is %+v", task)
	}
}

// TestTask_EndsWithTheResultOfACommand checks that a task ends if the gateway runs its message as a command.
func TestTask_EndsWithTheResultOfACommand(t *testing.T) {
	r := startNew(t, nil)
	client := r.elsewhere("ops", a2a.TransportProtocolJSONRPC)
	for command, want := range map[string]string{
		"/halt": "There is no agent here to notify.",
		"/who":  "Work needs the collaboration broker, and it isn't running here.",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		result, err := client.SendMessage(ctx, request(command, command, "c1"))
		cancel()
		task, _ := result.(*a2a.Task)
		if err != nil || task == nil || task.Status.State != a2a.TaskStateCompleted || !slices.Equal(answersOf(task.Artifacts), []string{want}) {
			t.Errorf("the task of %s is %+v, %v; want %q", command, task, err, want)
		}
	}
}

// TestCallbacks_EndAClosedTurn checks that the turn of a message that the agent closes without an
// answer ends for the service, too. A message without a turn gets no events.
func TestCallbacks_EndAClosedTurn(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")
	for _, c := range []struct {
		disposition string
		turn        bool
	}{
		{"ignored", false},
		{"superseded", true},
		{"failed", true},
	} {
		if status, answer := post(t, inbox, posted("c", c.disposition, "look", callback.url)); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		source := nextChat(t, agent).SourceID
		if c.turn {
			status := map[string]any{"event": "status", "status": "looking", "inReplyTo": source}
			agent.Send(t, "chorus:ops.c", protocol.TypeAgentEvent, status)
		}
		closes(t, agent, "chorus:ops.c", source, c.disposition)
	}
	const want = "lifecycle:processing status lifecycle:idle lifecycle:processing status error lifecycle:idle"
	if got := callback.types(7); got != want {
		t.Errorf("the service got %s; want %s", got, want)
	}
	callback.none()
}
