package mailbox

import (
	"cmp"
	"slices"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// A ParticipationChange is a change of the agent's participation in a thread, as an SQL
// assignment. ?3 is the time, ?4 the event.
type ParticipationChange string

// Changes of participation.
const (
	Joined    ParticipationChange = `joined_at = ?3` // it was named
	Spoke     ParticipationChange = `joined_at = CASE WHEN left_at > 0 THEN joined_at ELSE ?3 END`
	Left      ParticipationChange = `left_at = ?3, leave_event = ?4, joined_at = 0`
	Returned  ParticipationChange = `left_at = 0, leave_event = '', joined_at = ?3`
	Escalated ParticipationChange = `escalated_at = ?3` // a person was called in
)

// HasLeft reports whether the agent was asked to leave the thread or conversation of an event and has not
// been named there since.
func (v *View) HasLeft(e *Entry) bool { return v.participation(e).hasLeft() }

// SetParticipation applies a change to the thread of an event.
func (tx *Tx) SetParticipation(e *Entry, change ParticipationChange) {
	chat := e.Content.Chat
	tx.Exec(`INSERT OR IGNORE INTO participation (conversation, thread) VALUES (?, ?)`, chat.ID, chat.ThreadID)
	tx.Exec(`UPDATE participation SET `+string(change)+
		` WHERE conversation = ?1 AND thread = ?2 AND ?3 > 0 AND ?4 = ?4`,
		chat.ID, chat.ThreadID, time.Now().UnixMicro(), e.EventID)
}

// A participation says whether the agent takes part in a thread.
type participation struct {
	joined, left, chatLeft     int64
	leaveEvent, chatLeaveEvent string
}

// hasLeft reports whether the agent was asked to leave the thread or its conversation and has not
// been named there since.
func (p participation) hasLeft() bool { return p.left > 0 || p.chatLeft > p.joined }

func (v *View) participation(e *Entry) participation {
	return First(v.Tx, func(p *participation) []any {
		return []any{&p.joined, &p.left, &p.leaveEvent, &p.chatLeft, &p.chatLeaveEvent}
	},
		`SELECT coalesce(max(joined_at) FILTER (WHERE thread = ?2), 0),
			coalesce(max(left_at) FILTER (WHERE thread = ?2), 0), coalesce(max(leave_event) FILTER (WHERE thread = ?2), ''),
			coalesce(max(left_at) FILTER (WHERE thread = ''), 0), coalesce(max(leave_event) FILTER (WHERE thread = ''), '')
		FROM participation WHERE conversation = ?1`, e.Content.Chat.ID, e.Content.Chat.ThreadID)
}

// Facts returns the recorded facts that a decision about an event needs.
func (v *View) Facts(e *Entry) attention.Facts {
	c, p := &e.Content, v.participation(e)
	var lastOwn, lastOther int64
	var lastText string
	facts := First(v.Tx, func(f *attention.Facts) []any {
		return []any{&f.Work, &f.Answered, &lastOwn, &lastText, &lastOther}
	}, `SELECT
		coalesce((SELECT e.event_id FROM claims c CROSS JOIN events e ON e.event_id = c.event_id
				WHERE e.conversation = ?1 AND e.thread = ?2 AND c.owner = ?3 AND c.expires_at > ?4 ORDER BY e.seq DESC LIMIT 1),
			(SELECT event_id FROM events WHERE +conversation = ?1 AND +thread = ?2 AND kind = 'assignment' AND directedness = 'to_me'
				AND `+OpenCondition+` AND seq < ?5 ORDER BY seq DESC LIMIT 1), ''),
		EXISTS (SELECT 1 FROM sent s JOIN events e ON e.event_id = s.event_id WHERE e.source_id = ?6 AND e.chat = ?7 AND s.kind = 'text'),
		coalesce((SELECT max(sent_at) FROM sent WHERE conversation = ?1 AND thread = ?2 AND `+ownWords+`), 0),
		coalesce((SELECT `+askedText+` FROM sent WHERE conversation = ?1 AND thread = ?2 AND `+ownWords+` ORDER BY sent_at DESC LIMIT 1), ''),
		coalesce((SELECT received_at FROM events WHERE conversation = ?1 AND thread = ?2 AND seq < ?5 AND kind = 'message' ORDER BY seq DESC LIMIT 1), 0)`,
		c.Chat.ID, c.Chat.ThreadID, v.m.id, time.Now().UnixMicro(), e.Seq, e.SourceID, e.Chat)
	facts.OwnsThread, facts.Continues = facts.Work != "", e.IsFragment() // an edit changes nothing about that
	facts.Age, facts.Participating, facts.Left = max(0, time.Since(e.ReceivedAt)), p.joined > 0, p.hasLeft()
	facts.Asked = lastOwn > lastOther &&
		(attention.EndsWithQuestion(lastText) || attention.OffersChoice(lastText, c.Text))
	facts.Offered = lastOwn > lastOther && attention.Offers(lastText)
	facts.Question = lastText
	if at, question := lastQuestion(v.Tx, c.Chat); v.mayAnswer(e, at) {
		facts.Asked, facts.Question = true, question
		facts.Answers = c.Chat.Kind != string(attention.ConversationDM) // there everything is for the agent
	}
	if c.ReplyTo != nil {
		answered := v.questionText(e, c.ReplyTo.SourceID)
		facts.Question = cmp.Or(answered, facts.Question)
		facts.Asked = c.Event != protocol.EventReaction && facts.Asked || attention.EndsWithQuestion(answered)
		facts.Offered = c.Event != protocol.EventReaction && (facts.Offered || attention.Offers(answered))
		facts.Repeated = v.hasReacted(e, c.ReplyTo.SourceID)
	}
	if e.FromAgent() && e.Content.Event == protocol.EventMessage {
		facts.Repeated = store.Value[bool](v.Tx, `SELECT EXISTS (SELECT 1 FROM (SELECT received_at, content FROM events
				WHERE conversation = ?1 AND thread = ?2 AND author = ?3 AND author_kind = 'agent' AND turn_id <> '' AND seq < ?4
				AND state NOT IN ('failed', 'superseded') ORDER BY seq DESC LIMIT 100) r
			WHERE json_extract(r.content, '$.text') = ?5 AND NOT EXISTS (SELECT 1 FROM events
				WHERE conversation = ?1 AND thread = ?2 AND received_at > r.received_at AND `+byPerson+`))`,
			c.Chat.ID, c.Chat.ThreadID, c.Author.ID, e.Seq, c.Text)
	}
	facts.OtherAgents = store.All(v.Tx, store.Scalar[string], `WITH RECURSIVE `+agents+` SELECT author FROM agents
		WHERE author NOT IN (?2, ?3) AND EXISTS (SELECT 1 FROM events e WHERE e.author = agents.author AND e.conversation = ?1 AND e.author_kind = 'agent') LIMIT 100`,
		c.Chat.ID, v.m.id, v.m.id.Name())
	return facts
}

// ownWords is the condition for what an agent said: its texts, and the question what an unclear message means.
const ownWords = `(sent.kind = 'text' OR sent.key LIKE '` + NoticeUnclear + `:%')`

// lastQuestion returns the agent's last text in a thread, and its time in microseconds, or 0 if it asks nothing.
// A remark on a pause, such as "Sure, take your time!", does not count.
func lastQuestion(tx *store.Tx, in *protocol.Chat) (at int64, question string) {
	const most = 5
	type own struct {
		at          int64
		text, about string
	}
	for _, said := range store.All(tx, func(s *own) []any { return []any{&s.at, &s.text, &s.about} },
		`SELECT sent_at, `+askedText+`,
			coalesce((SELECT content ->> '$.text' FROM events WHERE events.event_id = sent.event_id), '')
		FROM sent WHERE conversation = ? AND thread = ? AND `+ownWords+` ORDER BY sent_at DESC LIMIT ?`,
		in.ID, in.ThreadID, most) {
		switch {
		case attention.EndsWithQuestion(said.text):
			return said.at, said.text
		case !attention.IsPause(said.about):
			return 0, ""
		}
	}
	return 0, ""
}

// openQuestion is how long a question to a person waits for an answer that neither names nor answers a message
// of the agent.
const openQuestion = 30 * time.Minute

// mayAnswer reports whether an event may answer the question that the agent asked at a time, in
// microseconds. It must be the first message since then from the person whose message led
// to the question, or from anybody if no person's did or the question was a post. Messages to
// others, and pauses such as "brb", do not count. If another agent has written since, no event may:
// the person may be answering that agent.
func (v *View) mayAnswer(e *Entry, asked int64) bool {
	c := &e.Content
	if c.Event != protocol.EventMessage || c.Author.Kind != string(attention.AuthorHuman) || c.ReplyTo != nil ||
		e.FromBroker() || e.ReceivedAt.Sub(time.UnixMicro(asked)) > openQuestion {
		return false
	}
	event := e.Event()
	if attention.IsPause(c.Text) && len(c.Attachments) == 0 && !v.m.opts.Attention.Stops(&event) {
		return false
	}
	question := store.Value[int64](v.Tx, `SELECT coalesce(q.seq, 1) FROM sent LEFT JOIN events q ON q.event_id = sent.event_id
		WHERE sent.conversation = ?1 AND sent.thread = ?2 AND `+ownWords+` AND sent.sent_at = ?3
		AND (q.seq IS NULL OR q.author_kind <> 'human' OR q.author = ?4)`, c.Chat.ID, c.Chat.ThreadID, asked, c.Author.ID)
	since := store.All(v.Tx, store.Scalar[string], `SELECT iif(author_kind = 'agent' OR content ->> '$.attachments' <> '', '',
			coalesce(content ->> '$.text', '')) FROM events
		WHERE conversation = ?1 AND thread = ?2 AND seq > ?3 AND seq < ?4 AND received_at > ?5 AND kind = 'message'
		AND (author = ?6 AND directedness <> 'to_other' OR author_kind = 'agent') LIMIT 10`,
		c.Chat.ID, c.Chat.ThreadID, question, e.Seq, asked, c.Author.ID)
	return question > 0 && len(since) < 10 &&
		!slices.ContainsFunc(since, func(said string) bool { return !attention.IsPause(said) })
}

// ReplyContext returns the recorded facts that decide whether the agent may reply to an event
// now. text is the intended reply. e may be nil.
func (v *View) ReplyContext(e *Entry, text string) attention.ReplyContext {
	if e == nil {
		return attention.ReplyContext{}
	}
	s := attention.ReplyContext{Known: true, Policy: e.Decision.Policy, Disposition: e.Disposition(),
		Replied: e.State == Answered}
	if e.State == Stored {
		s.Policy = attention.PolicyMustNotRespond // not decided yet
	}
	if mayReplyAgain(v, e) {
		s.Replied = false
		if s.Disposition == attention.DispositionResponded || s.Disposition == attention.DispositionFailed {
			s.Disposition = ""
		}
	}
	p := v.participation(e)
	s.Left, s.LeaveEvent = p.hasLeft(), e.EventID == p.leaveEvent || e.EventID == p.chatLeaveEvent
	v.fillClaim(e, &s)
	if e.FromAgent() {
		s.Exchange = v.Exchange(e).Next(time.Now())
		s.Repeats = attention.IsRepeat(text, store.All(v.Tx, store.Scalar[string],
			`SELECT text FROM sent WHERE conversation = ? AND kind = 'text' ORDER BY sent_at DESC LIMIT 10`,
			e.Content.Chat.ID)) &&
			e.Origin.QuestionID == "" // an agent may answer several questions with the same text
	}
	return s
}

// byPerson selects events in which a person wrote something or agreed. They begin a new exchange.
const byPerson = `author_kind = 'human' AND (kind IN ('message','edit','assignment','approval','blocker')
	OR kind = 'reaction' AND json_extract(content, '$.signal') = 'agree')`

// agents is a table of all agents that wrote something. It looks each one up in the index instead
// of scanning their events.
const agents = `agents (author) AS (SELECT min(author) FROM events WHERE author_kind = 'agent' UNION ALL
	SELECT (SELECT min(author) FROM events WHERE author_kind = 'agent' AND author > a.author) FROM agents a WHERE a.author IS NOT NULL)`

// brokerConversation selects the pseudo conversations of events that came through the broker
// outside of any conversation. No person writes there. The counter exchangeStartedAt has the time
// when a person last caused such an event.
const (
	brokerConversation = `(p.conversation = 'work' OR p.conversation LIKE 'work:%')`
	exchangeStartedAt  = "behind_at"
)

// StartExchange records that an agent contacts another through the broker because of a person's
// message. This begins a new exchange, as if the person had written there.
func StartExchange(tx *Tx) { tx.SetCounter(exchangeStartedAt, time.Now().UnixMicro()) }

// exchanged selects the texts of an exchange with their times and authors. ?1 is the
// conversation, ?2 the author, ?3 the counter exchangeStartedAt. In the conversation all agents
// count, elsewhere only the author; each conversation counts since a person last wrote in it.
const exchanged = `FROM (
	WITH RECURSIVE ` + agents + `,
	conversations (conversation) AS (SELECT min(conversation) FROM events WHERE author = ?2 AND author_kind = 'agent' UNION ALL
		SELECT (SELECT min(conversation) FROM events WHERE author = ?2 AND author_kind = 'agent' AND conversation > p.conversation)
		FROM conversations p WHERE p.conversation IS NOT NULL),
	spoken (conversation, at) AS MATERIALIZED (SELECT conversation, max(coalesce((SELECT max(received_at) FROM events
			WHERE conversation = p.conversation AND ` + byPerson + `), 0), iif(` + brokerConversation + `, ?3, 0))
		FROM (SELECT conversation FROM conversations WHERE conversation IS NOT NULL UNION SELECT ?1) p),
	said (author, conversation, at) AS (SELECT ?2, conversation, at FROM spoken
		UNION SELECT author, ?1, at FROM agents JOIN spoken ON conversation = ?1 WHERE author IS NOT NULL)
	SELECT e.received_at AS at, coalesce(json_extract(e.content, '$.text'), '') AS text, e.author AS author
		FROM said p CROSS JOIN events e ON e.author = p.author AND e.conversation = p.conversation AND e.received_at > p.at
		WHERE e.author_kind = 'agent' AND e.directedness IN ('', 'to_me', 'to_my_role') AND e.kind IN ('message','assignment','approval','blocker','answer')
	UNION ALL SELECT s.sent_at, s.text, ''
		FROM spoken p CROSS JOIN sent s ON s.conversation = p.conversation AND s.sent_at > p.at CROSS JOIN events e ON e.event_id = s.event_id
		WHERE s.kind = 'text' AND e.author_kind = 'agent' AND (p.conversation = ?1 OR e.author = ?2)
	) WHERE TRUE`

// Exchange returns what this agent and others wrote to each other around an event since a person
// last wrote.
func (v *View) Exchange(e *Entry) (x attention.Exchange) {
	here, other, behind := e.Content.Chat.ID, e.Content.Author.ID, v.Counter(exchangeStartedAt)
	x.Sent = store.All(v.Tx, scanTime, `SELECT at `+exchanged+` ORDER BY 1 LIMIT 1000`, here, other, behind)
	x.Received = store.All(v.Tx, store.Scalar[string], `SELECT text `+exchanged+
		` AND author = ?2 ORDER BY at DESC LIMIT 10`, here, other, behind)
	x.Escalated = store.Value[bool](v.Tx, `SELECT EXISTS (SELECT 1 FROM participation p WHERE p.escalated_at > iif(`+brokerConversation+`, ?3, 0)
		AND (p.conversation = ?1 OR EXISTS (SELECT 1 FROM events WHERE conversation = p.conversation AND author = ?2 AND author_kind = 'agent'))
		AND NOT EXISTS (SELECT 1 FROM events WHERE conversation IN (?1, p.conversation) AND received_at >= p.escalated_at AND `+byPerson+`))`, here, other, behind)
	return x
}

// LastTexts returns the last texts of an exchange in order, each with its author. The author is
// "" for this agent.
func (v *View) LastTexts(e *Entry, limit int) (list [][2]string) {
	list = store.All(v.Tx, func(said *[2]string) []any { return []any{&said[0], &said[1]} },
		`SELECT author, text `+exchanged+` ORDER BY at DESC LIMIT ?4`, e.Content.Chat.ID, e.Content.Author.ID,
		v.Counter(exchangeStartedAt), limit)
	slices.Reverse(list)
	return list
}

// LastPerson returns the user name of the person who wrote last in a conversation, or "" if there
// is none.
func (v *View) LastPerson(conversation string) string {
	return store.Value[string](v.Tx, `SELECT coalesce(json_extract(content, '$.author.username'), '') FROM events
		WHERE conversation = ? AND `+byPerson+` ORDER BY received_at DESC LIMIT 1`, conversation)
}
