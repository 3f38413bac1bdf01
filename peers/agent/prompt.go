package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// aroundLimit is how many earlier messages go with an event.
const aroundLimit = 12

// harnessTurn makes what the harness gets of a turn. It is nil where nothing
// is left to show: the turn is ended then.
func (a *Agent) harnessTurn(ctx context.Context, tx *sql.Tx, t *turn, caps harness.Capabilities) (*harness.Turn, error) {
	cfg := a.opts.attentionConfig(caps)
	ht := &harness.Turn{
		ID: t.ID, Attempt: t.Attempt, System: a.system(cfg.Version, a.contract()), Workspace: a.opts.Workspace, MCP: a.opts.MCP,
		Chat: string(t.chatOf()), Contract: a.brokerContract(),
	}
	if a.opts.ChatServer != nil {
		server := a.opts.ChatServer(ht.Chat)
		ht.ChatServer = &server
	}
	if t.Mode == attention.ModeDigest {
		return a.digestTurn(t, ht)
	}
	all, err := a.fragments(ctx, tx, t)
	if err != nil {
		return nil, err
	}
	var parts []*entry
	for _, e := range all {
		if !e.Deleted {
			parts = append(parts, e)
		}
	}
	if len(parts) == 0 {
		return nil, a.endTurn(ctx, tx, t, turnCancelled, "its messages were deleted", nil)
	}
	carrier, err := entryByID(ctx, tx, t.EventID)
	if err != nil {
		return nil, err
	}
	if endsTurn(carrier) {
		return nil, a.endTurn(ctx, tx, t, turnCancelled, "the event was settled before", nil)
	}
	ht.Event, ht.Deferrals = a.harnessEvent(carrier, parts, t, cfg.Version), carrier.Deferrals
	if ht.MCP, err = a.turnServers(carrier); err != nil {
		return nil, err
	}
	prompt, err := a.promptOf(ctx, tx, carrier, parts)
	if err != nil {
		return nil, err
	}
	ht.Prompt = prompt.Block(a.opts.Fence())
	return ht, nil
}

// system is the operator's text, the contract (who the agent is and how it
// works with others), and the standing rules.
func (a *Agent) system(v attention.Version, contract string) string {
	var b strings.Builder
	if a.opts.SystemPrompt != "" {
		b.WriteString(strings.TrimSpace(a.opts.SystemPrompt) + "\n\n")
	}
	b.WriteString(contract)
	b.WriteString("\n" + attention.ResponseRules(v))
	return b.String()
}

// harnessEvent is the event as C2A delivers it.
func (a *Agent) harnessEvent(e *entry, parts []*entry, t *turn, v attention.Version) harness.Event {
	d := &e.Decision
	event := harness.Event{
		EventID: e.EventID, Sequence: e.Seq, CreatedAt: e.Content.CreatedAt,
		Source:       harness.Source{Platform: platformOf(e.Chat)},
		Conversation: conversationOf(&e.Content), Author: authorOf(&e.Content), Mentions: e.Content.Mentions,
		Recipient: string(a.id), Directedness: string(d.Directedness), Policy: string(d.Policy.In(v)), Reason: d.Reason,
		Priority: string(d.Priority), DeadlineMS: d.DeadlineMS, Mode: string(d.Injection), Context: d.Context, Role: "user",
		IdempotencyKey: e.EventID + ":" + string(a.id), Signal: e.Content.Signal,
	}
	if len(t.Merged) > 1 {
		for _, p := range parts {
			event.MergedEventIDs = append(event.MergedEventIDs, p.EventID)
		}
	}
	if event.Knock = d.Knock; event.Knock != nil {
		event.Author.DisplayName, event.Author.Username = "", "" // names are text of others
		event.Conversation.Title, event.Conversation.Service, event.Conversation.Context = "", "", ""
		event.Mentions = slices.DeleteFunc(slices.Clone(event.Mentions), func(m string) bool { return !a.meant(m) })
		return event
	}
	for _, p := range parts {
		event.Content = append(event.Content, partsOf(p)...)
	}
	return event
}

// meant reports whether a mention is of this agent or of a role of its own:
// other labels are words of the text.
func (a *Agent) meant(mention string) bool {
	return mention == string(a.id) || slices.ContainsFunc(a.opts.Roles, func(role string) bool {
		return mention == "role:"+strings.TrimPrefix(role, "role:")
	})
}

func platformOf(chat protocol.Topic) string {
	switch family := protocol.PeerID(chat).Family(); family {
	case "tg":
		return "telegram"
	case "":
		return "bus"
	default:
		return family
	}
}

// promptOf is the same for a model that reads text.
func (a *Agent) promptOf(ctx context.Context, tx *sql.Tx, e *entry, parts []*entry) (*attention.Prompt, error) {
	p := &attention.Prompt{Event: e.event(), Decision: e.Decision, ReplyTarget: replyTarget(e), Parts: []string{}}
	for _, part := range parts {
		p.Parts = append(p.Parts, part.Content.Text)
		p.Merged = append(p.Merged, part.EventID)
		for _, f := range part.Content.Attachments {
			p.Attachments = append(p.Attachments, fmt.Sprintf("%s %q %s %d bytes", f.Kind, f.Name, f.MimeType, f.Size))
		}
	}
	if e.Decision.Knock != nil || e.Decision.Context == "" {
		return p, nil
	}
	home, err := a.homeOf(ctx, tx, e)
	if err != nil {
		return nil, err
	}
	around, err := a.window(ctx, tx, reachOf(home), e.Content.Chat.ID, e.Content.Chat.ThreadID, parts[0], aroundLimit)
	if err != nil {
		return nil, err
	}
	for _, line := range around {
		if line.Deleted {
			continue
		}
		p.Around = append(p.Around, attention.Line{
			EventID: line.EventID, Text: line.Text,
			Author: attention.Author{ID: line.Author.ID, Kind: attention.AuthorKind(line.Author.Kind), DisplayName: line.Author.DisplayName},
		})
	}
	signals, err := a.signalsSince(ctx, tx, e)
	if err != nil {
		return nil, err
	}
	deferrals, err := a.deferralNotes(ctx, tx, e)
	if err != nil {
		return nil, err
	}
	asked, err := a.askedFor(ctx, tx, e)
	p.Notes = slices.Concat(signals, deferrals, asked)
	return p, err
}

func replyTarget(e *entry) string {
	if thread := e.Content.Chat.ThreadID; thread != "" {
		return "thread:" + thread
	}
	return e.Content.Chat.Kind + ":" + e.Content.Chat.ID
}

// signalsSince lists the reactions to the agent's messages in a conversation
// since its last turn there, as header lines.
func (a *Agent) signalsSince(ctx context.Context, tx *sql.Tx, e *entry) ([]string, error) {
	list, err := entries(ctx, tx, `WHERE conversation = ?1 AND chat = ?4 AND kind = 'reaction' AND mode = 'notify' AND policy = 'must_not_respond' AND seq < ?2
		AND seq > coalesce((SELECT max(t.seq) FROM turns t WHERE t.place = ?3 AND t.seq < ?2 AND t.attempt > 0), 0) ORDER BY seq LIMIT 20`,
		e.Content.Chat.ID, e.Seq, e.place(), e.Chat)
	if err != nil {
		return nil, err
	}
	var notes []string
	for _, r := range list {
		if r.Content.ReplyTo != nil && r.Decision.Knock != nil {
			notes = append(notes, "signal_to_you: "+r.Decision.Knock.Topic+" "+r.Content.ReplyTo.SourceID+" from "+r.Decision.Knock.From)
		}
	}
	return notes, nil
}

// turnServers are the MCP servers of a turn: the operator's, and that of the
// chorus gateway for a message that came through it.
func (a *Agent) turnServers(e *entry) ([]harness.MCPServer, error) {
	if len(e.Content.MCP) == 0 || protocol.PeerID(e.Chat).Family() != "chorus" || a.opts.Peer == nil {
		return a.opts.MCP, nil
	}
	var proxy struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(e.Content.MCP, &proxy); err != nil || proxy.URL == "" {
		return a.opts.MCP, nil
	}
	token := a.opts.Peer.Token
	if a.opts.Peer.TokenFunc != nil {
		var err error
		if token, err = a.opts.Peer.TokenFunc(); err != nil {
			return nil, fmt.Errorf("reading the token for the chorus gateway: %w", err)
		}
	}
	server := harness.MCPServer{Name: "channel", URL: proxy.URL, Headers: map[string]string{}}
	if token != "" {
		server.Headers["Authorization"] = "Bearer " + token
	}
	if a.opts.Conceal != nil {
		server = a.opts.Conceal(server)
	}
	return append(append([]harness.MCPServer{}, a.opts.MCP...), server), nil
}
