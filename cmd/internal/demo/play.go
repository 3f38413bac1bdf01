package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"

	"github.com/go-telegram/bot/models"
)

// Patience is how long a scene waits for what it shows.
const Patience = 40 * time.Second

// A Play is the script of the demo.
type Play struct {
	Stage     *Stage
	Narrator  *Narrator
	Pause     time.Duration                                                      // before each scene, for people to read
	KillAgent func(ctx context.Context, agent string) error                      // ends an agent's process as a crash would
	AddAgent  func(ctx context.Context, topic protocol.Topic, name string) error // gives a chat a second agent

	agent protocol.PeerID // of the group
	call  Line            // that asks for a person
}

// A scene is one part of the play.
type scene struct {
	title       string
	explanation string
	play        func(p *Play, ctx context.Context) error
}

var scenes = []scene{
	{
		"1. An empty chat finds its agent",
		"Nobody is assigned to this group. The bridge asks the spawner for an agent, waits for the route, introduces itself and only then passes the message on.",
		(*Play).bootstrap,
	},
	{
		"2. Silence",
		"Not every message is for the agent. It keeps what it overhears in its mailbox, where it can look it up, but no model runs and nothing is said.",
		(*Play).silence,
	},
	{
		"3. A knock, and a claim",
		"A role is asked, and two agents have it. Each is only knocked: told that something is there, without its text. Each may look; the first to claim it answers, the other leaves it.",
		(*Play).claim,
	},
	{
		"4. Two agents hear each other, and a loop ends",
		"What an agent says reaches the others of its chat, and obliges whom it names. These two would go on for ever: after a dozen messages without a person one is called, once. On the right is only what ends it.",
		(*Play).discussion,
	},
	{
		"5. A thumbs-up lets an agent go on",
		"A reaction to an agent's own question is an answer: no message is needed.",
		(*Play).thumbsUp,
	},
	{
		"6. Reactions instead of messages",
		"An agent that was given work says so where people look, on the message itself, and not in one more message.",
		(*Play).reaction,
	},
	{
		"7. A crash loses nothing and doubles nothing",
		"The agent's process is killed (SIGKILL) while it holds a question. The spawner starts it again, it finds the question in its mailbox, and answers once.",
		(*Play).crash,
	},
}

// Run plays every scene. It needs a running Narrator.
func (p *Play) Run(ctx context.Context) error {
	defer p.Narrator.begin(true)
	for _, s := range scenes {
		if !retry.Sleep(ctx, p.Pause) {
			return context.Cause(ctx)
		}
		p.Narrator.title(s.title, s.explanation)
		if err := s.play(p, ctx); err != nil {
			return fmt.Errorf("scene %q: %w", s.title, err)
		}
	}
	return nil
}

// await waits until done holds; what says what it waits for.
func (p *Play) await(ctx context.Context, what string, done func(moment) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Patience, fmt.Errorf("%s did not happen within %s", what, Patience))
	defer cancel()
	return p.Narrator.until(ctx, done)
}

// say is somebody writing into the group.
func (p *Play) say(from models.User, text string) Line { return p.Stage.Say(p.Stage.Group, from, text) }

// eventID is how agents name a message of the group.
func (p *Play) eventID(l Line) string {
	return fmt.Sprintf("tg:%d:%d:%d", p.Stage.API.Bot().ID, l.ChatID, l.Message)
}

func (p *Play) bootstrap(ctx context.Context) error {
	l := p.say(p.Stage.Will, "@"+BotName+" hello")
	return p.await(ctx, "a greeting and its end", func(m moment) bool {
		if r, ok := first(m, protocol.TypeRouteAssigned, func(r protocol.RouteAssigned) bool { return true }); ok {
			p.agent = r.Agent
		}
		return answered(m, l) && p.ended(m, l)
	})
}

func (p *Play) silence(ctx context.Context) error {
	l := p.say(p.Stage.Ana, "lunch?")
	if err := p.await(ctx, "a decision about it", func(m moment) bool { return p.ended(m, l) }); err != nil {
		return err
	}
	p.Narrator.note("Nothing was said, and the log says why (hubbub why " + p.eventID(l) + ")")
	return nil
}

func (p *Play) claim(ctx context.Context) error {
	topic := protocol.PeerID(fmt.Sprintf("tg:%d", p.Stage.Group.ID)).Topic()
	if err := p.AddAgent(ctx, topic, "second"); err != nil {
		return fmt.Errorf("adding a second agent: %w", err)
	}
	introduced := func(m moment) bool {
		for _, passed := range m.passages {
			if passed.message.Type == protocol.TypeConfigure && passed.Topic == "agent:second" && len(passed.Deliveries) > 0 {
				return true
			}
		}
		return false
	}
	if err := p.await(ctx, "the introduction of the second agent", introduced); err != nil {
		return err
	}
	l := p.say(p.Stage.Ana, "@backend-agents who can look at the failing build?")
	return p.await(ctx, "a claim and one answer", func(m moment) bool {
		_, granted := first(m, protocol.TypeCollabResult, func(r struct {
			Result struct{ Granted bool }
		}) bool {
			return r.Result.Granted
		})
		return granted && answered(m, l)
	})
}

// discussion has two agents talk to each other until one calls a person.
func (p *Play) discussion(ctx context.Context) error {
	p.Narrator.brief(true)
	defer p.Narrator.brief(false)
	l := p.say(p.Stage.Will, "@"+BotName+" discuss the launch with second")
	called := func(m moment) bool {
		p.call = Line{}
		for _, seen := range m.lines {
			if seen.Bot && seen.N > l.N && strings.HasSuffix(seen.Text, "Should we go on?") {
				p.call = seen
			}
		}
		return p.call.N > 0
	}
	if err := p.await(ctx, "the call for a person", called); err != nil {
		return err
	}
	return p.await(ctx, "the end of the exchange", func(m moment) bool {
		calls := 0
		for _, passed := range m.passages {
			var e activitylog.AttentionRecord
			if json.Unmarshal(passed.message.Content, &e) == nil && e.Event == activitylog.RecordEscalation {
				calls++
			}
		}
		if calls == 0 {
			return false
		}
		p.Narrator.note(fmt.Sprintf("%d messages of agents, then %s.", answers(m, l)-1, text.Count(calls, "call")))
		return true
	})
}

// thumbsUp answers the call by a reaction.
func (p *Play) thumbsUp(ctx context.Context) error {
	l := p.Stage.React(p.call, p.Stage.Will, "👍")
	return p.await(ctx, "a word that it goes on", func(m moment) bool { return answered(m, l) })
}

func (p *Play) reaction(ctx context.Context) error {
	l := p.say(p.Stage.Will, "@"+BotName+" work on the release notes")
	return p.await(ctx, "two reactions", func(m moment) bool {
		reactions := 0
		for _, seen := range m.lines {
			if seen.Bot && seen.Message == l.Message {
				reactions++
			}
		}
		return reactions >= 2 && p.ended(m, l)
	})
}

func (p *Play) crash(ctx context.Context) error {
	l := p.say(p.Stage.Will, "@"+BotName+" is the release blocked?")
	delivered := func(m moment) bool {
		_, ok := first(m, protocol.TypeTGMessage, func(c protocol.ChatMessage) bool { return c.SourceID == p.eventID(l) })
		return ok
	}
	if err := p.await(ctx, "the delivery of the question", delivered); err != nil {
		return err
	}
	if err := p.KillAgent(ctx, p.agent.Name()); err != nil {
		return fmt.Errorf("killing %s: %w", p.agent, err)
	}
	p.Narrator.note(fmt.Sprintf("%s was killed.", p.agent))
	if err := p.await(ctx, "the answer of the restarted agent", func(m moment) bool { return answered(m, l) && p.ended(m, l) }); err != nil {
		return err
	}
	return p.await(ctx, "exactly one answer", func(m moment) bool {
		if answers(m, l) != 1 {
			return false
		}
		p.Narrator.note("One question, one answer.")
		return true
	})
}

// ended reports whether some agent has recorded the end of an event.
func (p *Play) ended(m moment, l Line) bool {
	_, ok := first(m, protocol.TypeAgentEvent, func(d protocol.Disposition) bool {
		return d.Event == "disposition" && d.EventID == p.eventID(l)
	})
	return ok
}

// answered reports whether the bot wrote something after a line.
func answered(m moment, l Line) bool { return answers(m, l) > 0 }

func answers(m moment, l Line) int {
	n := 0
	for _, seen := range m.lines {
		if seen.Bot && seen.N > l.N && seen.ChatID == l.ChatID {
			n++
		}
	}
	return n
}

// first returns the first content of a message type that fits.
func first[T any](m moment, t protocol.MessageType, fits func(T) bool) (T, bool) {
	for _, passed := range m.passages {
		var content T
		if passed.message.Type == t && json.Unmarshal(passed.message.Content, &content) == nil && fits(content) {
			return content, true
		}
	}
	var none T
	return none, false
}
