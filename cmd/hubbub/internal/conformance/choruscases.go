package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"hubbub/peers/agent/harness/conformance"
	"hubbub/protocol/chorus"
)

// maxExchange is how many messages an agent may write to a program that answers each at once.
const maxExchange = 30

// A chorusOptions holds the settings of a run.
type chorusOptions struct {
	only           string
	publicURL      string // where agents reach the service; default its listener's address
	timeout, quiet time.Duration
}

// A chorusRun is one run of the cases.
type chorusRun struct {
	*chorusService
	opts   chorusOptions
	agents []*chorusAgent
	mark   string // makes the IDs of the run unique
	report func(conformance.Verdict)
}

// A chorusCase is one case.
type chorusCase struct {
	name, title string
	agents      int // how many it needs
	run         func(ctx context.Context, channel string) error
}

func (r *chorusRun) cases() []chorusCase {
	return []chorusCase{
		{"answer", "a person's question is answered at its callback", 1, r.answers(person("alice"))},
		{"again", "a message that is sent again is accepted and not answered again", 1, r.repeated},
		{"refused", "bodies without a required member, and wrong secrets, are refused", 1, r.refused},
		{"namesake", "a person whose display name is the agent's is answered", 1, r.answers(r.namesake)},
		{"declared", "a declared agent that names nobody is not answered", 1, r.declared},
		{"program", "an exchange with a program that answers at once ends, and a person is still answered", 1, r.program},
		{"ambient", "in a channel of two agents, a message that names nobody is answered by neither", 2,
			r.room("is anybody here?", 0)},
		{"role", "in a channel of two agents, the mention of a role is answered by at most one", 2,
			r.room("@backend-agents can you look at the deploy?", 1)},
		{"mention", "in a channel of two agents, the mention of one is answered by that one", 2, r.mentioned},
	}
}

// checkChorus plays a service on a listener, and checks agents by their connection strings.
func checkChorus(
	ctx context.Context, listener net.Listener, agents []*chorusAgent, opts chorusOptions,
	report func(conformance.Verdict),
) error {
	r := &chorusRun{
		chorusService: &chorusService{timeout: opts.timeout},
		opts:          opts, agents: agents, report: report, mark: "conformance-" + strings.ToLower(rand.Text()[:8]),
	}
	if r.url = strings.TrimSuffix(opts.publicURL, "/"); r.url == "" {
		r.url = "http://" + listener.Addr().String()
	}
	ctx, stop := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { r.serveCallbacks(ctx, listener) })
	defer serving.Wait()
	defer stop()
	defer r.client.CloseIdleConnections()
	for _, c := range r.cases() {
		switch {
		case !strings.Contains(c.name+" "+c.title, opts.only) || ctx.Err() != nil:
		case len(agents) < c.agents:
			r.verdict(c.name, c.title, conformance.Skipped, errors.New("it needs a second connection string"))
		default:
			r.verdict(c.name, c.title, conformance.OK, c.run(ctx, r.mark+"-"+c.name))
		}
	}
	const title = "what comes to callbacks are events of the protocol, without credentials"
	if strings.Contains("events "+title, opts.only) && ctx.Err() == nil {
		r.mu.Lock()
		faults := strings.Join(r.faults, "\n")
		r.mu.Unlock()
		var wrong error
		if faults != "" {
			wrong = errors.New(faults)
		}
		r.verdict("events", title, conformance.OK, wrong)
	}
	return ctx.Err()
}

func (r *chorusRun) verdict(name, title, result string, wrong error) {
	v := conformance.Verdict{Case: name, Title: title, Result: result}
	if wrong != nil {
		v.Error = wrong.Error()
		if result == conformance.OK {
			v.Result = conformance.Failed
		}
	}
	r.report(v)
}

// person returns a function that makes messages from a person with that name.
func person(name string) func() chorusMessage {
	return func() chorusMessage { return chorusMessage{Sender: name} }
}

// namesake is a person with the name of the first agent.
func (r *chorusRun) namesake() chorusMessage { return chorusMessage{Sender: r.agents[0].name} }

// post sends a message in a channel to the given agents, and returns the number of the post. Each
// agent must answer with status 200.
func (r *chorusRun) post(ctx context.Context, channel string, m chorusMessage, to ...*chorusAgent) (int, error) {
	post := r.newPost()
	if m.ID == "" {
		m.ID = fmt.Sprintf("%s-msg-%d", r.mark, post)
	}
	p := chorusPost{Message: m, Channel: chorus.Channel{
		ID: channel, Name: "conformance", Service: "Hubbub conformance",
		Context: "The team uses this channel to check agents.",
	}}
	for _, agent := range to {
		status, err := r.send(ctx, agent, post, p)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("a message got the status %d from %s, want 200", status, agent.name)
		}
		if err != nil {
			return post, err
		}
	}
	return post, nil
}

// ask posts a question to the first agent, and waits for its answer.
func (r *chorusRun) ask(ctx context.Context, channel string, m chorusMessage) (int, error) {
	post, err := r.post(ctx, channel, m, r.agents[0])
	if err != nil {
		return post, err
	}
	return post, r.awaitMessage(ctx, post, "")
}

// answers returns a case with a question that must be answered.
func (r *chorusRun) answers(sender func() chorusMessage) func(ctx context.Context, channel string) error {
	return func(ctx context.Context, channel string) error {
		m := sender()
		m.Content = "Is the deploy blocked?"
		_, err := r.ask(ctx, channel, m)
		return err
	}
}

func (r *chorusRun) repeated(ctx context.Context, channel string) error {
	m := chorusMessage{ID: r.mark + "-again", Sender: "alice", Content: "Are the tests green?"}
	first, err := r.ask(ctx, channel, m)
	if err != nil {
		return err
	}
	second, err := r.post(ctx, channel, m, r.agents[0])
	if err != nil {
		return err
	}
	r.awaitQuiet(ctx, r.opts.quiet)
	if n := len(r.messagesOf(first, second)); n != 1 {
		return fmt.Errorf("a message that was sent twice got %d answers", n)
	}
	return nil
}

// refused checks what an agent must not accept.
func (r *chorusRun) refused(ctx context.Context, _ string) (wrong error) {
	u, err := url.Parse(r.agents[0].connection)
	if err != nil {
		return withoutURL(err)
	}
	u.Path = u.Path[:strings.LastIndex(u.Path, "/")+1] + "sk_conformance"
	const channel, callback = `"channel":{"id":"c"}`, `"callback":"https://service.example.com/c"`
	const message = `"message":{"id":"m","sender":"alice","content":"hello"}`
	for _, c := range []struct{ what, connection, body string }{
		{"another secret", u.String(), `{` + channel + `,` + message + `,` + callback + `}`},
		{"a body that is not JSON", r.agents[0].connection, `hello`},
		{"a message without a channel", r.agents[0].connection, `{` + message + `,` + callback + `}`},
		{"a message without a callback", r.agents[0].connection, `{` + channel + `,` + message + `}`},
		{"a message without content", r.agents[0].connection,
			`{` + channel + `,"message":{"id":"m","sender":"alice"},` + callback + `}`},
		{"a message with blank content", r.agents[0].connection,
			`{` + channel + `,"message":{"id":"m","sender":"alice","content":" \n"},` + callback + `}`},
	} {
		status, err := r.sendRaw(ctx, c.connection, []byte(c.body))
		if err == nil && (status < 400 || status >= 500) {
			err = fmt.Errorf("%s got the status %d, want 4xx", c.what, status)
		}
		wrong = errors.Join(wrong, err)
	}
	return wrong
}

func (r *chorusRun) declared(ctx context.Context, channel string) error {
	var posts []int
	for _, kind := range []string{"agent", "bot"} {
		post, err := r.post(ctx, channel, chorusMessage{
			Sender: "timber", SenderKind: kind, Content: "The nightly build is done. Does anybody need the files?",
		}, r.agents[0])
		if err != nil {
			return err
		}
		posts = append(posts, post)
	}
	return r.wantSilence(ctx, posts...)
}

// wantSilence waits until the agents are quiet, and finds answers to posts.
func (r *chorusRun) wantSilence(ctx context.Context, posts ...int) error {
	r.awaitQuiet(ctx, r.opts.quiet)
	for _, e := range r.messagesOf(posts...) {
		return fmt.Errorf("%s answered: %.80q", e.agent, e.text)
	}
	return nil
}

// program answers each message from the agent at once, each time in different words, like a
// program that does not declare itself as one.
func (r *chorusRun) program(ctx context.Context, channel string) error {
	messages := make(chan struct{}, maxExchange+1)
	r.mu.Lock()
	r.onHeard = func(e *heardEvent) {
		if e.Type == chorus.EventMessage {
			select {
			case messages <- struct{}{}:
			default: // the exchange is too long already
			}
		}
	}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.onHeard = nil
	}()
	if _, err := r.ask(ctx, channel, chorusMessage{Sender: "alice", Content: "Which tests failed?"}); err != nil {
		return err
	}
	for n := 0; ; n++ {
		select {
		case <-messages:
		case <-time.After(r.opts.quiet):
			_, err := r.ask(ctx, channel, chorusMessage{Sender: "alice", Content: "Is it fixed now?"})
			if err != nil {
				return fmt.Errorf("after the exchange, a person's question: %w", err)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if n >= maxExchange {
			return fmt.Errorf("the agent answered a program %d times without a person in between", n)
		}
		question := fmt.Sprintf("And which of the tests in group %d failed?", n+1)
		if _, err := r.post(ctx, channel, chorusMessage{Sender: "pine", Content: question}, r.agents[0]); err != nil {
			return err
		}
	}
}

// room returns a case with a message to two agents of a channel. At most atMost of them may answer.
func (r *chorusRun) room(text string, atMost int) func(ctx context.Context, channel string) error {
	return func(ctx context.Context, channel string) error {
		post, err := r.post(ctx, channel, chorusMessage{Sender: "alice", Content: text}, r.agents[:2]...)
		if err != nil {
			return err
		}
		if atMost == 0 {
			return r.wantSilence(ctx, post)
		}
		r.awaitQuiet(ctx, r.opts.quiet)
		answered := map[string]bool{}
		for _, e := range r.messagesOf(post) {
			answered[e.agent] = true
		}
		if len(answered) > atMost {
			return fmt.Errorf("%d agents answered, want at most %d", len(answered), atMost)
		}
		return nil
	}
}

func (r *chorusRun) mentioned(ctx context.Context, channel string) error {
	for i, agent := range r.agents[:2] {
		text := fmt.Sprintf("@%s is check number %d done?", agent.name, i+1)
		post, err := r.post(ctx, channel, chorusMessage{Sender: "alice", Content: text}, r.agents[:2]...)
		if err != nil {
			return err
		}
		if err := r.awaitMessage(ctx, post, agent.name); err != nil {
			return fmt.Errorf("%s is named: %w", agent.name, err)
		}
		r.awaitQuiet(ctx, r.opts.quiet)
		for _, e := range r.messagesOf(post) {
			if e.agent != agent.name {
				return fmt.Errorf("%s is named, and %s answered: %.80q", agent.name, e.agent, e.text)
			}
		}
	}
	return nil
}

// withoutURL removes the URL from an error: a connection string is a secret.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("calling the connection string: %w", u.Err)
	}
	return err
}
