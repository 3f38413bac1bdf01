package chorus

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/chorus"
)

// personPeer returns the identity of a person who writes in channels, by the name that the
// service gives them.
func personPeer(name string) protocol.PeerID {
	return protocol.PeerID("chorus:" + escapeName(strings.TrimPrefix(name, "@")))
}

// handleCommand passes a message on to the broker if it is a person's command. It reports whether
// nobody else should receive the message. A service identifies its people; the secret of the
// inbox authorizes them.
func (g *Gateway) handleCommand(tx *store.Tx, in *inboundMessage, seq int64) bool {
	var message protocol.ChatMessage
	if json.Unmarshal(in.content, &message) != nil || message.Author == nil ||
		message.Author.Kind != string(attention.AuthorHuman) {
		return false
	}
	o := bridge.Command{
		By:    personPeer(in.posted.Sender),
		Kind:  message.Chat.Kind,
		Title: message.Chat.Title,
		Key:   in.posted.MessageID,
	}
	verb, rest := bridge.ParseCommand("/", message.Text)
	elsewhere, halt := g.leadsElsewhere(tx, in.channel, message.Text), bridge.ParseHalt("/", message.Text)
	taken := func() { tx.Exec(`UPDATE inbound SET forwarded_at = ? WHERE seq = ?`, micros(g.opts.Now()), seq) }
	switch {
	case halt != "": // each agent reports what it stopped
		taken()
		if g.router.Halt(tx, in.channel, halt, in.posted.Sender, o.Key) == 0 {
			g.commands().Post(tx, in.channel, "", "halt:"+o.Key, "There is no agent here to notify.")
		}
		return true
	case protocol.CheckPeerID(string(o.By)) != nil: // the name is too long for an identity
		return false
	case verb == bridge.VerbAsk && !g.leadsElsewhere(tx, in.channel, rest) &&
		len(g.commands().People(tx, "", bridge.LeadingName(rest))) == 0:
		return false // the channel's own agent answers
	case verb != "":
		o.Verb, o.Text = verb, rest
		taken()
	case elsewhere: // a task does not end with the result, as an agent has the message too
		o.Verb, o.Text, o.Key = bridge.VerbSay, message.Text, "say:"+o.Key
	default:
		return false
	}
	g.router.EnqueueCommand(tx, in.channel, &o)
	return verb != ""
}

// leadsElsewhere reports whether a text begins with a name that belongs neither to an agent of
// the channel nor to a person in it.
func (g *Gateway) leadsElsewhere(tx *store.Tx, channel protocol.PeerID, text string) bool {
	return g.router.NamesOutsider(tx, channel, text, func(name string) bool {
		return strings.EqualFold(name, string(inboxOfPeer(channel))) || (adapter{g}).otherAgent(tx, channel, name) != ""
	})
}

// A commandHost shows the results of commands in channels. It implements bridge.CommandAdapter.
type commandHost struct{ g *Gateway }

func (g *Gateway) commands() commandHost { return commandHost{g} }

// Post shows a text of the gateway in a channel, at the callback of the newest message. If that
// callback takes no more, the text waits for the next message. A task that is a command takes the
// result itself, and ends with it.
func (d commandHost) Post(tx *store.Tx, channel protocol.PeerID, _, key, text string) {
	raw, err := json.Marshal(text)
	tx.Fail(err)
	p := pendingEvent{Event: chorus.Event{Type: chorus.EventMessage, Content: raw}, NewestAttempt: 1, Channel: channel}
	_, command, _ := strings.Cut(key, ":")
	in, isTask := store.One(tx, answeredColumns, `SELECT seq, turn FROM inbound WHERE channel = ? AND external_id = ?
		AND EXISTS (SELECT 1 FROM task WHERE inbound = seq)`, channel, command)
	if isTask {
		p.NewestAttempt = 0
		d.g.callbacks.putWithLifecycle(tx, in, p, key, true, true)
		return
	}
	d.g.callbacks.put(tx, channel, newestOf(tx, channel), p, key)
}

// Limits on texts that wait for the next message of a channel.
const (
	maxNewest = 7  // attempts for a text, each at another callback or a day later
	maxTexts  = 50 // in one channel
)

// nextMessageQueue returns the destination of texts that wait for the next message of a channel.
func nextMessageQueue(channel protocol.PeerID) string { return string(channel) + " (next message)" }

// newest returns the newest message of a channel with a callback, or 0.
func (d commandHost) newest(ctx context.Context, p *pendingEvent) (int64, error) {
	return store.Read(ctx, d.g.store.db, func(tx *store.Tx) int64 { return newestOf(tx, p.Channel) })
}

func newestOf(tx *store.Tx, channel protocol.PeerID) int64 {
	return store.Value[int64](
		tx,
		`SELECT seq FROM inbound WHERE channel = ? AND (callback IS NULL OR callback <> x'') ORDER BY seq DESC LIMIT 1`,
		channel,
	)
}

// keepForNextMessage lets a text that no callback took wait for the next message of its channel,
// unless that message has already arrived.
func (d commandHost) keepForNextMessage(tx *store.Tx, item *outbox.Item, p pendingEvent) {
	to, put, newest := nextMessageQueue(p.Channel), d.g.callbacks.queue.EnqueueHeld, newestOf(tx, p.Channel)
	if newest > p.Inbound {
		to, put = string(p.Channel), d.g.callbacks.queue.EnqueueTx
	}
	p.Inbound = newest
	if p.NewestAttempt++; p.NewestAttempt <= maxNewest &&
		d.g.callbacks.queue.Count(tx, to, outbox.StatePending) < maxTexts {
		raw, err := json.Marshal(p)
		tx.Fail(err)
		_, err = put(tx, to, fmt.Sprintf("%d %s", p.NewestAttempt, hashSecret(item.Key)), raw)
		tx.Fail(err)
	}
}

// sendKept sends the texts that waited for a channel's next message.
func (d commandHost) sendKept(tx *store.Tx, channel protocol.PeerID) {
	d.g.callbacks.queue.Move(tx, nextMessageQueue(channel), string(channel))
}

// People returns the person who writes in channels under a name.
func (d commandHost) People(tx *store.Tx, _ protocol.PeerID, name string) []protocol.PeerID {
	who := store.Value[string](tx, `SELECT said ->> '$.author.displayName' FROM
		(SELECT CAST(content AS TEXT) AS said FROM inbound ORDER BY seq DESC LIMIT 500)
		WHERE json_valid(said) AND lower(said ->> '$.author.displayName') = lower(?) AND said ->> '$.author.kind' = 'human' LIMIT 1`, name)
	if who == "" {
		return nil
	}
	return []protocol.PeerID{personPeer(who)}
}

// DisplayName returns the name of a person who writes in channels.
func (d commandHost) DisplayName(_ *store.Tx, person protocol.PeerID) string {
	if protocol.RoleOf(person) != protocol.RoleChorus {
		return ""
	}
	return "@" + person.Name()
}
