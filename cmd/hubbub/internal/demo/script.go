package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"

	"github.com/go-telegram/bot/models"
)

// stepTimeout bounds how long a step waits for what it shows.
const stepTimeout = 2 * time.Minute

// A Script runs the steps of the demo.
type Script struct {
	Server    *ChatServer
	Printer   *Printer
	Pause     time.Duration                                                      // before each step, as time to read
	KillAgent func(ctx context.Context, agent string) error                      // kills an agent's process
	AddAgent  func(ctx context.Context, topic protocol.Topic, name string) error // adds a second agent to a chat

	groupAgent protocol.PeerID // the agent of the group
	escalation Line            // the message that asks for a person
}

// A step is one part of the script.
type step struct {
	title       string
	explanation string
	run         func(p *Script, ctx context.Context) error
}

var steps = []step{
	{
		"1. A new chat gets an agent",
		"No agent is assigned to this group. The bridge asks the spawner for an agent, waits for the route, " +
			"configures the agent, and only then delivers the message.",
		(*Script).bootstrap,
	},
	{
		"2. Silence",
		"Not every message is for the agent. It keeps other messages in its mailbox, where it can look them up. No " +
			"model runs, and the agent says nothing.",
		(*Script).silence,
	},
	{
		"3. A knock, and a claim",
		"The question is for a role that two agents have. Each gets a knock: a notice without the text. Each may " +
			"look. The first agent to claim the question answers it; the other does not.",
		(*Script).claim,
	},
	{
		"4. Two agents talk, and a loop ends",
		"An agent's messages reach the other agents of the chat, and oblige those that they name. These two would go " +
			"on forever. After a dozen messages without a person, one agent asks for a person, once. The right side " +
			"shows only what ends the loop.",
		(*Script).discussion,
	},
	{
		"5. A thumbs-up lets an agent continue",
		"A reaction to an agent's question is an answer. No message is needed.",
		(*Script).thumbsUp,
	},
	{
		"6. Reactions instead of messages",
		"An agent that accepts work shows that with a reaction on the message, not with another message.",
		(*Script).reaction,
	},
	{
		"7. A crash neither loses nor duplicates anything",
		"The agent's process is killed (SIGKILL) while it has a question. The spawner restarts it. It finds the " +
			"question in its mailbox and answers once.",
		(*Script).crash,
	},
}

// Run runs every step. Its Printer must be running.
func (p *Script) Run(ctx context.Context) error {
	defer p.Printer.reset(true)
	for _, s := range steps {
		if !retry.Sleep(ctx, p.Pause) {
			return context.Cause(ctx)
		}
		p.Printer.beginStep(s.title, s.explanation)
		if err := s.run(p, ctx); err != nil {
			return fmt.Errorf("step %q: %w", s.title, err)
		}
	}
	return nil
}

// await waits until done returns true. what describes what it waits for.
func (p *Script) await(ctx context.Context, what string, done func(history) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout,
		fmt.Errorf("%s did not happen within %s", what, stepTimeout))
	defer cancel()
	return p.Printer.waitUntil(ctx, done)
}

// say writes into the group as a user.
func (p *Script) say(from models.User, text string) Line {
	return p.Server.Say(p.Server.Group, from, text)
}

// eventID returns the ID by which agents know a message of the group.
func (p *Script) eventID(l Line) string {
	return fmt.Sprintf("tg:%d:%d:%d", p.Server.API.Bot().ID, l.ChatID, l.Message)
}

func (p *Script) bootstrap(ctx context.Context) error {
	l := p.say(p.Server.Will, "@"+BotName+" hello")
	return p.await(ctx, "a greeting and its end", func(m history) bool {
		if r, ok := firstContent(m, protocol.TypeRouteAssigned,
			func(r protocol.RouteAssigned) bool { return true }); ok {
			p.groupAgent = r.Agent
		}
		return answered(m, l) && p.disposed(m, l)
	})
}

func (p *Script) silence(ctx context.Context) error {
	l := p.say(p.Server.Ana, "lunch?")
	if err := p.await(ctx, "a decision about it", func(m history) bool { return p.disposed(m, l) }); err != nil {
		return err
	}
	p.Printer.remark("The agent said nothing, and the log says why (hubbub why " + p.eventID(l) + ")")
	return nil
}

func (p *Script) claim(ctx context.Context) error {
	topic := protocol.PeerID(fmt.Sprintf("tg:%d", p.Server.Group.ID)).Topic()
	if err := p.AddAgent(ctx, topic, "second"); err != nil {
		return fmt.Errorf("adding a second agent: %w", err)
	}
	introduced := func(m history) bool {
		for _, passed := range m.messages {
			if passed.message.Type == protocol.TypeConfigure && passed.Topic == "agent:second" &&
				len(passed.Deliveries) > 0 {
				return true
			}
		}
		return false
	}
	if err := p.await(ctx, "the introduction of the second agent", introduced); err != nil {
		return err
	}
	l := p.say(p.Server.Ana, "@backend-agents who can look at the failing build?")
	return p.await(ctx, "one answer, and the end of the event for both agents", func(m history) bool {
		return answered(m, l) && p.countDisposed(m, l) == 2
	})
}

// discussion makes two agents talk to each other until one of them escalates to a person.
func (p *Script) discussion(ctx context.Context) error {
	p.Printer.setBrief(true)
	defer p.Printer.setBrief(false)
	l := p.say(p.Server.Will, "@"+BotName+" discuss the launch with second")
	called := func(m history) bool {
		p.escalation = Line{}
		for _, seen := range m.lines {
			if seen.Bot && seen.N > l.N && strings.HasSuffix(seen.Text, "Should we go on?") {
				p.escalation = seen
			}
		}
		return p.escalation.N > 0
	}
	if err := p.await(ctx, "the call for a person", called); err != nil {
		return err
	}
	return p.await(ctx, "the end of the exchange", func(m history) bool {
		calls := 0
		for _, passed := range m.messages {
			e, err := protocol.ParseRecord(passed.message.Content)
			if err == nil && e.Event == protocol.RecordEscalation {
				calls++
			}
		}
		if calls == 0 {
			return false
		}
		p.Printer.remark(fmt.Sprintf("%d messages from agents, then %s.", countAnswers(m, l)-1,
			text.Counted(calls, "call")))
		return true
	})
}

// thumbsUp answers the escalation with a reaction.
func (p *Script) thumbsUp(ctx context.Context) error {
	l := p.Server.React(p.escalation, p.Server.Will, "👍")
	return p.await(ctx, "a message that the agent continues", func(m history) bool { return answered(m, l) })
}

func (p *Script) reaction(ctx context.Context) error {
	l := p.say(p.Server.Will, "@"+BotName+" work on the release notes")
	return p.await(ctx, "two reactions", func(m history) bool {
		reactions := 0
		for _, seen := range m.lines {
			if seen.Bot && seen.Message == l.Message {
				reactions++
			}
		}
		return reactions >= 2 && p.disposed(m, l)
	})
}

func (p *Script) crash(ctx context.Context) error {
	l := p.say(p.Server.Will, "@"+BotName+" is the release blocked?")
	delivered := func(m history) bool {
		_, ok := firstContent(
			m, protocol.TypeTGMessage, func(c protocol.ChatMessage) bool { return c.SourceID == p.eventID(l) },
		)
		return ok
	}
	if err := p.await(ctx, "the delivery of the question", delivered); err != nil {
		return err
	}
	if err := p.KillAgent(ctx, p.groupAgent.Name()); err != nil {
		return fmt.Errorf("killing %s: %w", p.groupAgent, err)
	}
	p.Printer.remark(fmt.Sprintf("%s was killed.", p.groupAgent))
	if err := p.await(
		ctx, "the answer of the restarted agent", func(m history) bool { return answered(m, l) && p.disposed(m, l) },
	); err != nil {
		return err
	}
	return p.await(ctx, "exactly one answer", func(m history) bool {
		if countAnswers(m, l) != 1 {
			return false
		}
		p.Printer.remark("One question, one answer.")
		return true
	})
}

// disposed reports whether an agent has recorded the disposition of an event.
func (p *Script) disposed(m history, l Line) bool {
	return p.countDisposed(m, l) > 0
}

// countDisposed returns the number of agents that have recorded the disposition of an event.
func (p *Script) countDisposed(m history, l Line) int {
	agents := map[protocol.PeerID]bool{}
	for _, passed := range m.messages {
		var d protocol.Disposition
		if passed.message.Type == protocol.TypeAgentEvent && json.Unmarshal(passed.message.Content, &d) == nil &&
			d.Event == "disposition" && d.EventID == p.eventID(l) {
			agents[passed.message.From] = true
		}
	}
	return len(agents)
}

// answered reports whether the bot wrote after a line.
func answered(m history, l Line) bool { return countAnswers(m, l) > 0 }

func countAnswers(m history, l Line) int {
	n := 0
	for _, seen := range m.lines {
		if seen.Bot && seen.N > l.N && seen.ChatID == l.ChatID {
			n++
		}
	}
	return n
}

// firstContent returns the first content of a message type for which fits returns true.
func firstContent[T any](m history, t protocol.MessageType, fits func(T) bool) (T, bool) {
	for _, passed := range m.messages {
		var content T
		if passed.message.Type == t && json.Unmarshal(passed.message.Content, &content) == nil && fits(content) {
			return content, true
		}
	}
	var none T
	return none, false
}
