package chorus_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/peers/chorus"
	"hubbub/protocol"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

// A cachedToken shows the secret of an inbox with each request.
type cachedToken string

func (b cachedToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// A binding is one of the ways in which the protocol is spoken.
type binding = a2a.TransportProtocol

func eachBinding(t *testing.T, test func(t *testing.T, over binding)) {
	for _, over := range []binding{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON} {
		t.Run(string(over), func(t *testing.T) { test(t, over) })
	}
}

// elsewhere returns a client of the official library for an inbox.
func (r *fixture) elsewhere(name chorus.InboxName, over binding) *a2aclient.Client {
	r.t.Helper()
	_, secret, _ := strings.Cut(r.inbox(name), "/inbox/")
	return r.with(secret, over)
}

func (r *fixture) with(secret string, over binding) *a2aclient.Client {
	r.t.Helper()
	card, err := agentcard.DefaultResolver.Resolve(r.t.Context(), r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	out := &http.Client{Transport: cachedToken(secret)}
	client, err := a2aclient.NewFromCard(r.t.Context(), card, a2aclient.WithJSONRPCTransport(out), a2aclient.WithRESTTransport(out),
		a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []binding{over}}))
	if err != nil {
		r.t.Fatal(err)
	}
	return client
}

func request(words, id, talk string) *a2a.SendMessageRequest {
	m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(words))
	m.ID, m.ContextID = id, talk
	return &a2a.SendMessageRequest{Message: m}
}

// answersOf returns what the artifacts of a task say.
func answersOf(list []*a2a.Artifact) (all []string) {
	for _, artifact := range list {
		all = append(all, artifact.Parts[0].Text())
	}
	return all
}

// TestA2A_ReachesAnAgent checks that a message becomes a direct message to an agent and its answer
// an artifact of the task, waited for or streamed. The same message again returns the same task.
func TestA2A_ReachesAnAgent(t *testing.T) { eachBinding(t, oursIsReached) }

func oursIsReached(t *testing.T, over binding) {
	r := startNew(t, nil)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	client := r.elsewhere("ops", over)
	done := make(chan *a2a.Task, 1)
	go func() {
		result, err := client.SendMessage(context.WithoutCancel(t.Context()), request("is it blocked?", "m1", "c1"))
		if err != nil {
			t.Error(err)
		}
		task, _ := result.(*a2a.Task)
		done <- task
	}()
	d := agent.NextOf(t, protocol.TypeChatMessage)
	var m protocol.ChatMessage
	if err := d.Decode(&m); err != nil || m.Text != "is it blocked?" || m.Chat.Kind != "dm" || m.Author.Kind != "human" || d.Message.From != "chorus:ops.c1" {
		t.Fatalf("the agent heard %+v from %s, %v", m, d.Message.From, err)
	}
	answer := func(text, key string) {
		t.Helper()
		reply := protocol.ChatReply{Text: text, InReplyTo: m.SourceID, IdempotencyKey: key}
		if res := agent.SendAs(t, "agent:a", "chorus:ops.c1", protocol.TypeChatReply, reply); res.DeliveredTo != 1 {
			t.Fatalf("%q was not taken: %+v", text, res)
		}
	}
	answer("I look at it", "interim:1")
	answer("no, it runs", "k1")
	task := <-done
	if task == nil || task.Status.State != a2a.TaskStateCompleted || task.ContextID != "c1" || !slices.Equal(answersOf(task.Artifacts), []string{"no, it runs"}) {
		t.Fatalf("the task %+v", task)
	}
	again, err := client.SendMessage(t.Context(), request("is it blocked?", "m1", "c1"))
	if err != nil || again.TaskInfo().TaskID != task.ID {
		t.Errorf("the same message is %+v, %v", again, err)
	}
	got, err := client.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID})
	if err != nil || got.Status.State != a2a.TaskStateCompleted {
		t.Errorf("got %+v, %v", got, err)
	}
	list, err := client.ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: "c1", IncludeArtifacts: true})
	if err != nil || len(list.Tasks) != 1 || !slices.Equal(answersOf(list.Tasks[0].Artifacts), []string{"no, it runs"}) {
		t.Errorf("listed %+v, %v", list, err)
	}

	var states []string
	for event, err := range client.SendStreamingMessage(t.Context(), request("and now?", "m2", "c1")) {
		switch e := event.(type) {
		case *a2a.Task:
			states = append(states, string(e.Status.State))
			if err := agent.NextOf(t, protocol.TypeChatMessage).Decode(&m); err != nil {
				t.Fatal(err)
			}
			answer("still", "k2")
		case *a2a.TaskArtifactUpdateEvent:
			states = append(states, e.Artifact.Parts[0].Text())
		case *a2a.TaskStatusUpdateEvent:
			states = append(states, string(e.Status.State))
		default:
			t.Fatalf("%T, %v", event, err)
		}
	}
	states = slices.DeleteFunc(states, func(s string) bool { return s == string(a2a.TaskStateWorking) }) // it may pass unseen
	if want := []string{string(a2a.TaskStateSubmitted), "still", string(a2a.TaskStateCompleted)}; !slices.Equal(states, want) {
		t.Errorf("streamed %q", states)
	}
}

// TestTask_CancelWithdrawsTheTurn checks that a canceled task's message counts as deleted, and that
// later answers to it are refused.
func TestTask_CancelWithdrawsTheTurn(t *testing.T) { eachBinding(t, aTaskIsCancelled) }

func aTaskIsCancelled(t *testing.T, over binding) {
	r := startNew(t, nil)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	client := r.elsewhere("ops", over)
	r2 := request("work on it", "m1", "c1")
	r2.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	result, err := client.SendMessage(t.Context(), r2)
	if err != nil {
		t.Fatal(err)
	}
	id := result.TaskInfo().TaskID
	var was, gone protocol.ChatMessage
	if err := agent.NextOf(t, protocol.TypeChatMessage).Decode(&was); err != nil {
		t.Fatal(err)
	}
	task, err := client.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: id})
	if err != nil || task.Status.State != a2a.TaskStateCanceled {
		t.Fatalf("%+v, %v", task, err)
	}
	if err := agent.NextOf(t, protocol.TypeChatMessage).Decode(&gone); err != nil || gone.Event != protocol.EventDelete || gone.SourceID != was.SourceID || gone.Text != "" {
		t.Errorf("the agent heard %+v, %v", gone, err)
	}
	agent.SendAs(t, "agent:a", "chorus:ops.c1", protocol.TypeChatReply, protocol.ChatReply{Text: "too late", InReplyTo: string(was.SourceID), IdempotencyKey: "k"})
	var status protocol.DeliveryStatus
	if err := agent.NextOf(t, protocol.TypeDeliveryStatus).Decode(&status); err != nil || status.Status != protocol.StatusFailed {
		t.Errorf("what is said after the end: %+v, %v", status, err)
	}
	if _, err := client.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: id}); err == nil {
		t.Error("it was cancelled twice")
	}
	if task, err := client.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id}); err != nil || len(task.Artifacts) != 0 {
		t.Errorf("%+v, %v", task, err)
	}
}

// TestTask_FailsWithItsAgent fails the task if its agent says so.
func TestTask_FailsWithItsAgent(t *testing.T) { eachBinding(t, aTaskFails) }

func aTaskFails(t *testing.T, over binding) {
	r := startNew(t, nil)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	client := r.elsewhere("ops", over)
	for event, err := range client.SendStreamingMessage(t.Context(), request("work on it", "m1", "")) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := event.(type) {
		case *a2a.Task:
			d := agent.NextOf(t, protocol.TypeChatMessage)
			var m protocol.ChatMessage
			if err := d.Decode(&m); err != nil {
				t.Fatal(err)
			}
			agent.SendAs(t, "agent:a", d.Message.From.Topic(), protocol.TypeAgentEvent, map[string]any{"event": "error", "message": "out of paper", "inReplyTo": m.SourceID})
		case *a2a.TaskStatusUpdateEvent:
			if e.Status.State == a2a.TaskStateFailed && e.Status.Message.Parts[0].Text() == "out of paper" {
				return
			}
		}
	}
	t.Error("the task did not fail")
}

// TestA2A_RequiresTheInboxSecret checks that the secret of an inbox opens its own tasks and no
// others, until it is rotated. Tasks survive a restart of the gateway.
func TestA2A_RequiresTheInboxSecret(t *testing.T) { eachBinding(t, whoMayCall) }

func whoMayCall(t *testing.T, over binding) {
	t.Parallel()
	b, folder := bustest.Start(t, nil), filepath.Join(t.TempDir(), "chorus")
	r := start(t, b, folder, nil)
	ours, theirs := r.elsewhere("ops", over), r.elsewhere("sales", over)
	first := request("hello", "m1", "c1")
	first.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	result, err := ours.SendMessage(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	get := &a2a.GetTaskRequest{ID: result.TaskInfo().TaskID}
	if _, err := theirs.GetTask(t.Context(), get); err == nil {
		t.Error("another inbox's task was shown")
	}
	if list, err := theirs.ListTasks(t.Context(), &a2a.ListTasksRequest{}); err != nil || len(list.Tasks) != 0 {
		t.Errorf("another inbox's tasks were listed: %+v, %v", list, err)
	}
	for _, secret := range []string{"", "sk_wrong"} {
		if _, err := r.with(secret, over).GetTask(t.Context(), get); err == nil || !strings.Contains(err.Error(), "401") && !strings.Contains(err.Error(), "send the secret of an inbox") {
			t.Errorf("with the secret %q: %v", secret, err)
		}
	}
	for name, bad := range map[string]*a2a.SendMessageRequest{
		"nothing": request(" ", "m2", "c1"), "a hidden context": request("x", "m3", "c\u200b"), "no id": request("x", "", "c1"),
		"a file": {Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewRawPart([]byte("x")))},
	} {
		if result, err := ours.SendMessage(t.Context(), bad); err == nil {
			t.Errorf("%s was taken: %+v", name, result)
		}
	}
	r.stop()
	r = start(t, b, folder, nil)
	secret, err := r.store.RotateInbox(t.Context(), "ops")
	if err != nil {
		t.Fatal(err)
	}
	if task, err := r.with(secret, over).GetTask(t.Context(), get); err != nil || task.ID != get.ID {
		t.Errorf("after a restart: %+v, %v", task, err)
	}
}

// TestTask_AsksAndTakesTheAnswer checks that a decision for a person becomes the task's question.
// The task's next message answers it, and the outcome of the decision is not an answer of the task.
func TestTask_AsksAndTakesTheAnswer(t *testing.T) { eachBinding(t, aTaskAsks) }

func aTaskAsks(t *testing.T, over binding) {
	r := startNew(t, nil)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	client, others := r.elsewhere("ops", over), r.elsewhere("sales", over)
	heard := make(chan protocol.ChatMessage, 2)
	say := func(source string, reply protocol.ChatReply) {
		reply.InReplyTo = source
		if res := agent.SendAs(t, "agent:a", "chorus:ops.c1", protocol.TypeChatReply, reply); res.DeliveredTo != 1 {
			t.Errorf("%q was not taken: %+v", reply.Text, res)
		}
	}
	hears := func() protocol.ChatMessage {
		var m protocol.ChatMessage
		if err := agent.NextOf(t, protocol.TypeChatMessage).Decode(&m); err != nil {
			t.Error(err)
		}
		return m
	}
	go func() {
		first := hears()
		say(first.SourceID, protocol.ChatReply{Typing: true})
		say(first.SourceID, protocol.ChatReply{Text: "May it?", IdempotencyKey: "decision:d1", Buttons: []protocol.Button{{Text: "Allow", Value: "d1"}}})
		heard <- first
	}()
	result, err := client.SendMessage(t.Context(), request("deploy it", "m1", "c1"))
	if err != nil {
		t.Fatal(err)
	}
	task, _ := result.(*a2a.Task)
	if task == nil || task.Status.State != a2a.TaskStateInputRequired || task.Status.Message.Parts[0].Text() != "May it?" || len(task.Artifacts) != 0 {
		t.Fatalf("a task that asks is %+v", task)
	}
	first := <-heard
	answer := func(id, context string) *a2a.SendMessageRequest {
		m := request("yes", id, context)
		m.Message.TaskID = task.ID
		return m
	}
	if result, err := others.SendMessage(t.Context(), answer("m2", "")); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("from another inbox: %+v, %v", result, err)
	}
	if result, err := client.SendMessage(t.Context(), answer("m2", "c2")); !errors.Is(err, a2a.ErrInvalidParams) {
		t.Errorf("in another context: %+v, %v", result, err)
	}
	go func() {
		second := hears()
		say(first.SourceID, protocol.ChatReply{Text: "Decision: allowed", Edits: "decision:d1", IdempotencyKey: "decided:d1"})
		say(first.SourceID, protocol.ChatReply{Text: "deployed", IdempotencyKey: "k1"})
		heard <- second
	}()
	for range 2 { // the second is a repetition
		result, err = client.SendMessage(t.Context(), answer("m3", ""))
		if task, _ = result.(*a2a.Task); err != nil || task.Status.State != a2a.TaskStateCompleted || !slices.Equal(answersOf(task.Artifacts), []string{"deployed"}) {
			t.Fatalf("after the answer: %+v, %v", task, err)
		}
	}
	if second := <-heard; second.Text != "yes" || second.Author.ID != first.Author.ID || second.Chat.ID != first.Chat.ID || second.SourceID == first.SourceID {
		t.Errorf("the agent heard %+v, and before %+v", second, first)
	}
	if result, err := client.SendMessage(t.Context(), answer("m4", "")); !errors.Is(err, a2a.ErrUnsupportedOperation) {
		t.Errorf("to a task that has ended: %+v, %v", result, err)
	}
}

// TestA2A_RefusesPushNotifications refuses them as the card says and in the words of the
// protocol, and stores nothing.
func TestA2A_RefusesPushNotifications(t *testing.T) {
	r := startNew(t, nil)
	_, secret, _ := strings.Cut(r.inbox("ops"), "/inbox/")
	card, err := agentcard.DefaultResolver.Resolve(t.Context(), r.url)
	if err != nil || card.Capabilities.PushNotifications {
		t.Fatalf("%+v, %v", card, err)
	}
	const push = `"taskPushNotificationConfig":{"url":"https://example.com/push"}`
	for method, params := range map[string]string{
		"CreateTaskPushNotificationConfig": `{"taskId":"t1","url":"https://example.com/push"}`, "GetTaskPushNotificationConfig": `{"taskId":"t1","id":"p1"}`,
		"ListTaskPushNotificationConfigs": `{"taskId":"t1"}`, "DeleteTaskPushNotificationConfig": `{"taskId":"t1","id":"p1"}`,
		"SendMessage": `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hello"}]},"configuration":{` + push + `}}`,
	} {
		var got struct{ Error struct{ Code int } }
		if status := r.asks(secret, "POST /a2a", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, &got); status != http.StatusOK || got.Error.Code != -32003 {
			t.Errorf("%s: %d, %+v", method, status, got)
		}
	}
	const stored = "/a2a/rest/tasks/t1/pushNotificationConfigs"
	for call, body := range map[string]string{
		"POST " + stored: `{"url":"https://example.com/push"}`, "GET " + stored: "", "GET " + stored + "/p1": "", "DELETE " + stored + "/p1": "",
		"POST /a2a/rest/message:send": `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hello"}]},"configuration":{` + push + `}}`,
	} {
		var got struct {
			Error struct{ Details []struct{ Reason string } }
		}
		if status := r.asks(secret, call, body, &got); status != http.StatusBadRequest || len(got.Error.Details) == 0 || got.Error.Details[0].Reason != "PUSH_NOTIFICATION_NOT_SUPPORTED" {
			t.Errorf("%s: %d, %+v", call, status, got)
		}
	}
	if list, err := r.with(secret, a2a.TransportProtocolJSONRPC).ListTasks(t.Context(), &a2a.ListTasksRequest{}); err != nil || len(list.Tasks) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// asks makes a call in the protocol's own words, and reads the answer.
func (r *fixture) asks(secret, call, body string, answer any) (status int) {
	r.t.Helper()
	method, path, _ := strings.Cut(call, " ")
	asked, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	asked.Header.Set("A2A-Version", "1.0")
	answered, err := (&http.Client{Transport: cachedToken(secret)}).Do(asked)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answered.Body.Close()
	if err := json.NewDecoder(answered.Body).Decode(answer); err != nil {
		r.t.Errorf("%s: %v", call, err)
	}
	return answered.StatusCode
}
