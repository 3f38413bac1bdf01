package activity

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// replayOptions are the flags that change the policy for a replay.
type replayOptions struct {
	version              string
	roles, aliases       []string
	streams              []string
	stop, acks, leave    []string
	digests, changedOnly bool
}

// flags adds the flags to a flag set.
func (p *replayOptions) flags(fs *pflag.FlagSet) {
	fs.StringVar(&p.version, "policy-version", "", "with --replay: draft to use: 2026-06-02, 2026-06-24 or 2026-08-11")
	fs.StringArrayVar(
		&p.roles, "role", nil, "with --replay: role of the agent, instead of the announced ones (repeatable)",
	)
	fs.StringArrayVar(&p.aliases, "alias", nil,
		"with --replay: another name for the agent, instead of the announced ones (repeatable)")
	fs.StringArrayVar(&p.streams, "stream", nil, "with --replay: stream that the agent owns (repeatable)")
	fs.StringArrayVar(&p.stop, "stop-word", nil, "with --replay: stop word, instead of the defaults (repeatable)")
	fs.StringArrayVar(&p.acks, "ack-word", nil, "with --replay: acknowledgement, instead of the defaults (repeatable)")
	fs.StringArrayVar(&p.leave, "leave-word", nil,
		"with --replay: request to leave, instead of the defaults (repeatable)")
	fs.BoolVar(&p.digests, "digests", false, "with --replay: include digests of withheld events")
	fs.BoolVar(&p.changedOnly, "changed", false, "with --replay: show only events whose outcome changes")
}

// changedFlag returns the name of one of these flags that was set, or "".
func (p *replayOptions) changedFlag(cmd *cobra.Command) (name string) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&replayOptions{}).flags(own)
	own.VisitAll(func(f *pflag.Flag) {
		if cmd.Flags().Changed(f.Name) {
			name = f.Name
		}
	})
	return name
}

func (p *replayOptions) config() (attention.Config, error) {
	version, err := attention.ParseVersion(p.version)
	if err != nil {
		return attention.Config{}, program.Usage("--policy-version: %s", err)
	}
	words := attention.DefaultWords()
	for into, given := range map[*[]string][]string{&words.Stop: p.stop, &words.Acks: p.acks, &words.Leave: p.leave} {
		if len(given) > 0 {
			*into = given
		}
	}
	return attention.Config{Version: version, Digests: p.digests, Words: &words}, nil
}

// A replayedEvent is the recorded and the replayed decision of one agent about one event.
type replayedEvent struct {
	EventID   string           `json:"eventId"`
	MessageID string           `json:"messageId"`
	At        time.Time        `json:"ts"`
	Agent     string           `json:"agent"`
	Text      string           `json:"text"`
	Then      *decisionSummary `json:"then"` // the recorded decision; null if the agent recorded none
	Now       decisionSummary  `json:"now"`
	Woke      bool             `json:"woke"`
	WouldWake bool             `json:"wouldWake"`
}

// A decisionSummary is the short form of a decision.
type decisionSummary struct {
	Directedness string `json:"directedness"`
	Policy       string `json:"policy"`
	Injection    string `json:"injection"`
	Reason       string `json:"reason"`
}

func (o *decisionSummary) String() string {
	return fmt.Sprintf("%s, %s, %s (%s)", o.Directedness, o.Policy, o.Injection, o.Reason)
}

// run decides on past events again and prints the results.
func (p *replayOptions) run(cmd *cobra.Command, r *read.Reader, f read.AttentionFilter) error {
	cfg, err := p.config()
	if err != nil {
		return err
	}
	progress := logs.Progress(cmd)
	list, err := p.decide(cmd, r, f, cfg)
	progress.End()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf(
			"the log has no such chat message to an agent; hubbub tail --type tg_message lists its chat messages",
		)
	}
	out := output.NewPrinter(cmd)
	counts := map[string]int{}
	for i := range list {
		e := &list[i]
		fate := effects[[2]bool{e.Woke, e.WouldWake}]
		counts[fate.word]++
		switch {
		case p.changedOnly && e.Woke == e.WouldWake:
		case out.JSON:
			out.Value(e)
		default:
			printReplayedEvent(out, e, fate)
		}
	}
	if !out.JSON {
		var sums []string
		for _, word := range slices.Sorted(maps.Keys(counts)) {
			sums = append(sums, fmt.Sprintf("%d %s", counts[word], word))
		}
		out.Linef("%d events: %s", len(list), strings.Join(sums, ", "))
	}
	return out.Err
}

// An effect is how the changed policy affects an event.
type effect struct {
	sign   string
	colour term.Colour
	word   string
}

// effects are keyed by whether the event woke its agent, and whether it would now.
var effects = map[[2]bool]effect{
	{false, false}: {" ", term.Dim, "stays asleep"},
	{true, true}:   {"=", term.Green, "wakes as before"},
	{false, true}:  {"+", term.Yellow, "would wake"},
	{true, false}:  {"-", term.Red, "would no longer wake"},
}

func printReplayedEvent(p *output.Printer, e *replayedEvent, f effect) {
	p.Linef("%s %s %s %s %s", f.sign, e.At.Local().Format(moment), p.Paint(f.colour, term.Printable(e.Agent)+" "+f.word),
		term.Printable(e.EventID), text.Clip(term.Printable(fmt.Sprintf("%q", e.Text)), 80))
	p.Linef("    now:  %s", term.Printable(e.Now.String()))
	if e.Then != nil && *e.Then != e.Now {
		p.Linef("    then: %s", term.Printable(e.Then.String()))
	}
}

// decide reads the log once. It decides on each chat event with what the log contained before it.
func (p *replayOptions) decide(
	cmd *cobra.Command, r *read.Reader, f read.AttentionFilter, cfg attention.Config,
) ([]replayedEvent, error) {
	then := map[[2]string]*protocol.AttentionDecision{}
	err := r.Attention(cmd.Context(), f, func(a *activitylog.AttentionRecord) error {
		c, ok := a.Content.(*protocol.AttentionDecision)
		if key := [2]string{a.Agent, a.EventID}; ok && then[key] == nil {
			then[key] = c // the first; a granted claim causes another decision
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []replayedEvent
	seen := map[[2]string]bool{}
	past := newHistory()
	rows := read.Filter{Since: f.Since, Events: []activitylog.Event{
		activitylog.SendStart,
	}, Types: []protocol.MessageType{
		protocol.TypeTGMessage, protocol.TypeChatMessage, protocol.TypeTGReply, protocol.TypeChatReply,
		protocol.TypeCollabRequest,
	}}
	err = r.Each(cmd.Context(), rows, func(e *activitylog.Entry) error {
		c, ok := decodeChatMessage(e)
		if !ok {
			past.addRow(e)
			return nil
		}
		key := [2]string{e.Topic, c.SourceID}
		if c.Event == protocol.EventMessage && seen[key] ||
			protocol.RoleOf(protocol.PeerID(e.Topic)) != protocol.RoleAgent {
			return nil // a retransmission
		}
		seen[key] = true
		self := attention.Self{ID: e.Topic, Roles: p.roles, Aliases: p.aliases, Streams: p.streams}
		if len(self.Roles) == 0 {
			self.Roles = past.announced[e.Topic].Roles
		}
		if len(self.Aliases) == 0 {
			self.Aliases = past.announced[e.Topic].Aliases
		}
		d := past.decide(e, c, self, cfg)
		if (f.EventID == "" || f.EventID == c.SourceID) && (f.Agent == "" || f.Agent == e.Topic) {
			list = append(list, compareDecisions(e, c, d, then[key]))
		}
		return nil
	})
	return list, err
}

func compareDecisions(
	e *activitylog.Entry, c *protocol.ChatMessage, d attention.Decision, then *protocol.AttentionDecision,
) replayedEvent {
	out := replayedEvent{
		EventID: c.SourceID, MessageID: e.MessageID, At: e.Time(), Agent: e.Topic, Text: c.Text,
		Now: decisionSummary{
			string(d.Directedness), string(d.Policy), string(d.Injection), d.Reason,
		}, WouldWake: wakesAgent(string(d.Injection)),
	}
	if then != nil {
		out.Then = &decisionSummary{then.Directedness, then.Policy, then.Injection, then.Reason}
		out.Woke = wakesAgent(then.Injection)
	}
	return out
}

// history is what the log has shown so far about where agents participate. It stands in for the
// state that each agent had at the time.
type history struct {
	participations map[participationKey]*participation
	chats          map[string]*chatHistory          // by conversation ID
	answered       map[[2]string]bool               // by agent and event
	announced      map[string]collab.AnnounceParams // by agent
}

// A participationKey identifies one agent's participation in a conversation or thread.
type participationKey struct{ agent, conversation, thread string }

type participation struct{ participating, left, asked bool }

// A chatHistory is what the log has shown about a conversation.
type chatHistory struct {
	agents  []string
	threads map[string]string // by event
}

func newHistory() *history {
	return &history{
		participations: map[participationKey]*participation{},
		chats:          map[string]*chatHistory{},
		answered:       map[[2]string]bool{},
		announced:      map[string]collab.AnnounceParams{},
	}
}

func (p *history) participation(agent string, c *protocol.Chat) *participation {
	key := participationKey{agent, c.ID, c.ThreadID}
	if p.participations[key] == nil {
		p.participations[key] = &participation{}
	}
	return p.participations[key]
}

func (p *history) chat(id string) *chatHistory {
	if p.chats[id] == nil {
		p.chats[id] = &chatHistory{threads: map[string]string{}}
	}
	return p.chats[id]
}

// decide decides on a chat message and updates the history.
func (p *history) decide(
	e *activitylog.Entry, c *protocol.ChatMessage, self attention.Self, cfg attention.Config,
) attention.Decision {
	here, chat := p.participation(self.ID, c.Chat), p.chat(c.Chat.ID)
	chat.threads[c.SourceID] = c.Chat.ThreadID
	if c.Author.Kind == string(attention.AuthorAgent) && !slices.Contains(chat.agents, c.Author.ID) {
		chat.agents = append(chat.agents, c.Author.ID)
	}
	facts := attention.Facts{
		Participating: here.participating, Left: here.left, Asked: here.asked, Answered: p.answered[[2]string{
			self.ID, c.SourceID,
		}],
	}
	own := protocol.PeerID(self.ID).Name()
	for _, other := range chat.agents {
		if strings.TrimPrefix(other, "agent:") != own {
			facts.OtherAgents = append(facts.OtherAgents, other)
		}
	}
	d := attention.Decide(mailbox.EventOf(c), self, facts, cfg)
	switch {
	case d.Action == attention.ActionLeave:
		here.left, here.participating = true, false
	case d.Action == attention.ActionReturn:
		here.left, here.participating = false, true
	case d.Directedness == attention.DirectedToMe && d.Policy == attention.PolicyMustRespond:
		here.participating = true
	}
	if c.Event == protocol.EventMessage {
		here.asked = false
	}
	return d
}

// addRow adds a message that is not a chat message.
func (p *history) addRow(e *activitylog.Entry) {
	if protocol.MessageType(e.Type) != protocol.TypeCollabRequest {
		p.addReply(e)
		return
	}
	var c protocol.CollabRequest
	var announced collab.AnnounceParams
	if _, ok := e.Decode(&c); ok && c.Method == collab.IdentityAnnounce.Name &&
		json.Unmarshal(c.Params, &announced) == nil {
		p.announced[e.From] = announced
	}
}

// addReply adds the reply from an agent.
func (p *history) addReply(e *activitylog.Entry) {
	var c protocol.ChatReply
	if _, ok := e.Decode(&c); !ok || c.Text == "" {
		return
	}
	p.answered[[2]string{e.From, c.InReplyTo}] = true
	conversation := protocol.PeerID(e.Topic).Name()
	thread := c.ThreadID
	if thread == "" {
		thread = p.chat(conversation).threads[c.InReplyTo]
	}
	here := p.participation(e.From, &protocol.Chat{ID: conversation, ThreadID: thread})
	here.participating = true
	here.asked = strings.HasSuffix(strings.TrimRight(c.Text, " \n\t)*_"), "?")
}

// decodeChatMessage decodes a chat message and fills in the documented defaults. It returns false
// if the row has no chat message.
func decodeChatMessage(e *activitylog.Entry) (*protocol.ChatMessage, bool) {
	if t := protocol.MessageType(e.Type); t != protocol.TypeTGMessage && t != protocol.TypeChatMessage {
		return nil, false
	}
	c := &protocol.ChatMessage{}
	m, ok := e.Decode(c)
	if !ok {
		return nil, false
	}
	m.MessageID = protocol.MessageID(e.MessageID)
	mailbox.ApplyDefaults(c, &m)
	return c, true
}
