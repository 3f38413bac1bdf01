package turns

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/peers/agent/files"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/lifecycle"
	"hubbub/peers/agent/tools"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// contextLimit is the number of earlier messages shown with an event.
const contextLimit = 12

// prepare builds what the harness gets for a turn, and returns the turn's event, or nil for a
// digest. If nothing is left to show, it ends the turn.
func (r *Runner) prepare(tx *mailbox.Tx, j *task) (carrier *mailbox.Entry) {
	t := j.turn
	shown := &harness.Turn{ID: t.ID, Workspace: r.opts.Workspace, Chat: string(t.Scope())}
	shown.Event.Now = time.Now().In(r.opts.ZoneOf(nil))
	if t.Mode == attention.ModeDigest {
		r.showDigest(tx, shown, t)
	} else {
		parts := slices.DeleteFunc(tx.Fragments(t), func(e *mailbox.Entry) bool { return e.Deleted })
		if len(parts) == 0 {
			tx.MoveTurn(t, mailbox.TurnCancelled, "its messages were deleted", protocol.TurnCost{})
			return nil
		}
		carrier = tx.Entry(t.EventID)
		if carrier == nil || carrier.Settled() {
			tx.MoveTurn(t, mailbox.TurnCancelled, "the event was settled before", protocol.TurnCost{})
			return nil
		}
		shown.Event, shown.Deferrals = r.eventOf(tx, carrier, parts, t, j.version), carrier.Deferrals
		shown.Event.Now = time.Now().In(r.opts.ZoneOf(carrier.Content.Chat))
		before := r.window(tx, carrier, parts)
		j.prompt, j.parts = r.promptOf(tx, carrier, parts, before), parts
		j.earlier = earlierEvents(before)
		j.prompt.Now = shown.Event.Now
		if t.Body != "" {
			shown.Correction = t.Body
			j.prompt.Notes = append(j.prompt.Notes, "last_try: "+t.Body)
		}
	}
	if r.opts.ChatServer != nil {
		shown.ChatServer = new(r.opts.ChatServer(shown.Chat))
	}
	servers, err := r.opts.Servers(carrier)
	tx.Fail(err)
	shown.MCP = servers
	j.delivery = shown
	return carrier
}

// finishPrompt fetches the files that the turn needs and renders its prompt. A knock has no
// content, so it needs no files.
func (r *Runner) finishPrompt(ctx context.Context, j *task) {
	if j.prompt == nil {
		return // a digest
	}
	var shown files.Attachments
	for _, part := range j.parts {
		if j.prompt.Decision.Knock != nil {
			break
		}
		for i, a := range part.Files() {
			j.prompt.Attachments = append(j.prompt.Attachments, r.opts.Files.Describe(ctx, part, i+1, j.images, &shown))
			r.addTranscript(ctx, j.delivery.Event.Content, part, &a)
		}
	}
	if j.images && j.prompt.Decision.Knock == nil {
		j.prompt.Attachments = append(j.prompt.Attachments, r.earlierImages(ctx, j, &shown)...)
	}
	j.delivery.Prompt, j.delivery.Images = j.prompt.Block(r.opts.Fence()), shown.Images
}

// maxEarlierImages limits how many images of earlier messages a turn shows again.
const maxEarlierImages = 3

// earlierImages shows the newest images of the context again: a model keeps none between turns. It
// returns their prompt lines.
func (r *Runner) earlierImages(ctx context.Context, j *task, shown *files.Attachments) (lines []string) {
	quoted := map[string]bool{} // shown with the message that answers them
	for _, part := range j.parts {
		if q := part.Content.ReplyTo; q != nil && len(q.Attachments) > 0 {
			quoted[q.SourceID] = true
		}
	}
	for _, e := range slices.Backward(j.earlier) {
		for i := range e.Content.Attachments {
			a := &e.Content.Attachments[i]
			if len(lines) == maxEarlierImages || quoted[e.SourceID] || !files.MayBeImage(a) {
				continue
			}
			lines = append(lines, "of the earlier message "+e.EventID+": "+
				r.opts.Files.Describe(ctx, e, i+1, j.images, shown))
		}
	}
	return lines
}

// addTranscript adds the transcript of a voice message to the content of the event, for programs
// that do not read the prompt.
func (r *Runner) addTranscript(ctx context.Context, content []harness.Part, e *mailbox.Entry, a *protocol.Attachment) {
	for i := range content {
		if p := &content[i]; p.Kind == "voice" && p.Ref == a.Ref && a.Ref != "" && p.Text == "" {
			p.Text, _ = r.opts.Files.Transcript(ctx, e.Chat, a) //nolint:errcheck // the prompt says why not
		}
	}
}

// system returns the system prompt: the operator's text, the contract (who the agent is and how
// it works with others), and the standing rules. contract is the broker's part of it.
func (r *Runner) system(ctx context.Context, j *task) (system, contract string) {
	origin := j.origin
	if !r.opts.ReadsSystem {
		origin = nil // without a reader, the last announced contract suffices
	}
	system, given := r.broker.Contract(ctx, origin)
	if given {
		contract = system
	}
	system += "\n\n" + attention.ResponseRules(j.version)
	if r.opts.SystemPrompt != "" {
		system = strings.TrimSpace(r.opts.SystemPrompt) + "\n\n" + system
	}
	return system, contract
}

// eventOf returns an event in the form of C2A.
func (r *Runner) eventOf(tx *mailbox.Tx, e *mailbox.Entry, parts []*mailbox.Entry, t *mailbox.Turn,
	v attention.Version) harness.Event {
	d := &e.Decision
	event := harness.Event{
		EventID: e.EventID, Sequence: e.Seq, Recipient: r.opts.Self.ID, Role: "user", IdempotencyKey: e.EventID + ":" +
			r.opts.Self.ID,
		ChatEvent: harness.ChatEvent{
			CreatedAt: e.Content.CreatedAt, Source: harness.Source{Platform: platformOf(e.Chat)},
			Signal:       e.Content.Signal,
			Conversation: tools.ConversationOf(&e.Content), Author: harness.Author(*e.Content.Author),
			Mentions: e.Content.Mentions,
		},
		Decision: harness.NewDecision(d, d.Policy.In(v)),
	}
	if v == attention.Version0811 {
		event.Recipients, event.Obligation = e.Content.Recipients, e.Content.Obligation
	}
	if len(t.Merged) > 1 {
		for _, p := range parts {
			event.MergedEventIDs = append(event.MergedEventIDs, p.EventID)
		}
	}
	event.Revision = tools.Revision(parts, 0)
	event.IdempotencyKey += "~" + tools.Revision(parts, e.Deferrals)
	if e.ClaimGranted() { // its knock had the same text, and a program drops what it has seen
		event.IdempotencyKey += "~granted"
	}
	if event.Knock = d.Knock; event.Knock != nil {
		earlier := tx.Turns(`WHERE event_id = ? AND mode = 'notify' AND turn_id <> ?`, e.EventID, t.ID)
		if len(earlier) > 0 { // it is offered again
			event.IdempotencyKey += fmt.Sprint("~knock-", len(earlier)+1)
		}
		event.Author.DisplayName, event.Author.Username = "", "" // names are text by others
		event.Conversation.Title, event.Conversation.Service, event.Conversation.Context = "", "", ""
		event.Mentions = slices.DeleteFunc(slices.Clone(event.Mentions), func(m string) bool { return !r.meant(m) })
		return event
	}
	for _, p := range parts {
		event.Content = append(event.Content, tools.PartsOf(&p.Content)...)
	}
	return event
}

// meant reports whether a mention refers to this agent or one of its roles. Other mentions are
// part of the text.
func (r *Runner) meant(mention string) bool {
	return mention == r.opts.Self.ID || slices.ContainsFunc(r.opts.Self.Roles, func(role string) bool {
		return mention == "role:"+strings.TrimPrefix(role, "role:")
	})
}

func platformOf(chat protocol.Topic) string {
	family := protocol.PeerID(chat).Family()
	return cmp.Or(map[string]string{"tg": "telegram", "mx": "matrix", "": "bus"}[family], family)
}

// promptOf returns the prompt of an event after the messages of its window.
func (r *Runner) promptOf(tx *mailbox.Tx, e *mailbox.Entry, parts []*mailbox.Entry,
	window []mailbox.Line) *attention.Prompt {
	p := &attention.Prompt{Event: e.Event(), Decision: e.Decision, ReplyTarget: replyTarget(e), Parts: []string{},
		SentAt: e.SentAt()}
	for _, line := range [][2]string{{"service", e.Content.Chat.Service}, {"context", e.Content.Chat.Context}} {
		if line[1] != "" {
			p.ServiceNotes = append(p.ServiceNotes, line[0]+": "+line[1])
		}
	}
	for _, part := range parts {
		p.Parts = append(p.Parts, part.Content.Text)
		p.Merged = append(p.Merged, part.EventID)
		if from := part.Content.Forwarded; from != "" {
			p.Notes = append(p.Notes, "forwarded_from: "+part.EventID+" "+from)
		}
		if q := part.Content.ReplyTo; q != nil && q.Text != "" {
			author := attention.Author{ID: q.Author, DisplayName: q.Name}
			if protocol.PeerID(q.Author).Family() == "agent" { // the chat shows it under the name of its bot
				author = attention.Author{ID: q.Author, Kind: attention.AuthorAgent}
			}
			p.Quoted = append(p.Quoted, attention.Line{EventID: q.SourceID, Text: q.Text, Author: author,
				SentAt: tx.TimeOf(e.Chat, q.SourceID)})
		}
	}
	if e.Decision.Knock != nil || e.Decision.Context == "" || r.opts.OnlyEvent {
		return p
	}
	for _, line := range window {
		switch before := line.Entry; {
		case before == nil:
			p.Context = append(p.Context, attention.Line{
				EventID: string(line.Sent.MessageID), Text: line.Sent.Text,
				Author: attention.Author{ID: r.opts.Self.ID, Kind: attention.AuthorAgent}, SentAt: line.At,
			})
		case !before.Deleted:
			event := before.Event()
			event.Author.Username = ""
			p.Context = append(p.Context, attention.Line{EventID: event.EventID, Text: event.Text,
				Author: event.Author, SentAt: before.SentAt()})
		}
	}
	p.Notes = append(p.Notes, contextNotes(tx, e)...)
	return p
}

// earlierEvents returns the events of a window that have files, oldest first.
func earlierEvents(window []mailbox.Line) (list []*mailbox.Entry) {
	for _, line := range window {
		if line.Entry != nil && !line.Entry.Deleted && len(line.Entry.Content.Attachments) > 0 {
			list = append(list, line.Entry)
		}
	}
	return list
}

// window returns the messages before an event that its turn shows. A knock shows none.
func (r *Runner) window(tx *mailbox.Tx, e *mailbox.Entry, parts []*mailbox.Entry) []mailbox.Line {
	if e.Decision.Knock != nil || e.Decision.Context == "" {
		return nil
	}
	return tx.Window(mailbox.Reach{tx.TurnChat(e)}, e.Content.Chat.ID, e.Content.Chat.ThreadID, parts[0], contextLimit)
}

func replyTarget(e *mailbox.Entry) string {
	if thread := e.Content.Chat.ThreadID; thread != "" {
		return "thread:" + thread
	}
	return e.Content.Chat.Kind + ":" + e.Content.Chat.ID
}

// contextNotes returns header lines for the model: reactions to its messages since its last turn,
// the events it deferred, and the event for which it asked the question that is answered now.
func contextNotes(tx *mailbox.Tx, e *mailbox.Entry) (lines []string) {
	for _, s := range tx.Reactions(e) {
		if s.Content.ReplyTo != nil && s.Decision.Knock != nil {
			lines = append(lines, "signal_to_you: "+s.Decision.Knock.Topic+" "+s.Content.ReplyTo.SourceID+" from "+
				s.Decision.Knock.From)
		}
	}
	if e.Deferrals > 0 {
		lines = append(lines, fmt.Sprintf("deferred_before: %d of at most %d times", e.Deferrals,
			lifecycle.MaxDeferrals))
	}
	for _, other := range tx.OtherDeferred(e) {
		lines = append(lines, "deferred_by_you: "+other.EventID)
	}
	if asked := tx.AskedForEvent(e); asked != "" {
		lines = append(lines, "asked_by_you_for: "+asked)
	}
	return lines
}

// digest queues the turn of a digest if one is due and not empty.
func (r *iteration) digest() {
	if r.opts.DigestEvery <= 0 {
		return
	}
	r.inTx("making a digest", func(tx *mailbox.Tx) {
		last, now := tx.Counter("digest_at"), time.Now()
		if due := time.UnixMicro(last).Add(r.opts.DigestEvery); last > 0 && due.After(now) {
			r.schedule(due)
			return
		}
		r.schedule(now.Add(r.opts.DigestEvery))
		tx.SetCounter("digest_at", now.UnixMicro())
		list := tx.NextDigest()
		if last == 0 || len(list) == 0 { // the first period starts now
			return
		}
		var items []attention.DigestItem
		for _, e := range list {
			items = append(items, attention.DigestItem{Event: e.Event(), Decision: e.Decision, SentAt: e.SentAt()})
		}
		d := attention.MakeDigest(items, r.config().Version)
		body, err := json.Marshal(d)
		tx.Fail(err)
		tx.Digest(list, d.EventIDs, string(body))
	})
}

// showDigest builds what the harness gets for a digest.
func (r *Runner) showDigest(tx *mailbox.Tx, shown *harness.Turn, t *mailbox.Turn) {
	var d attention.Digest
	if err := json.Unmarshal([]byte(t.Body), &d); err != nil {
		tx.Fail(fmt.Errorf("reading the digest %s: %w", t.EventID, err))
	}
	now := shown.Event.Now
	shown.Prompt = d.Block(r.opts.Fence(), now)
	shown.Event = harness.Event{
		Now:     now,
		EventID: t.EventID, MergedEventIDs: d.EventIDs, Sequence: t.Seq, Recipient: r.opts.Self.ID, Role: "user",
		IdempotencyKey: t.EventID + ":" + r.opts.Self.ID, Digest: true,
		ChatEvent: harness.ChatEvent{
			CreatedAt: t.FirstAt.Format(time.RFC3339), Source: harness.Source{Platform: "hubbub"},
			Conversation: harness.Conversation{ID: "digest", Kind: "system"},
			Author:       harness.Author{ID: "hubbub", Kind: "system"},
			Content:      []harness.Part{{Type: "text", Text: d.Summary}},
		},
		Decision: harness.Decision{
			Directedness: string(attention.DirectedAmbient), Policy: string(d.Policy), Reason: d.Reason,
			Priority: string(attention.PriorityLow), Mode: string(attention.ModeDigest),
		},
	}
	for _, line := range d.Excerpts {
		shown.Event.Content = append(shown.Event.Content,
			harness.Part{Type: "text", Text: attention.AuthorLabel(line.Author) + ": " + line.Text})
	}
}
