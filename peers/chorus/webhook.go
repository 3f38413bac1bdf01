package chorus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"hubbub/peers/attention"
	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// hookPath is where programs POST; the name of a hook follows.
const hookPath = "/hook/"

// hookQueue is the queue of posts to hooks; destination: the chat.
const hookQueue = "hook"

// maxWebhookPosts is how many posts may wait for one chat.
const maxWebhookPosts = 1000

var errHookFull = newHTTPError(
	http.StatusServiceUnavailable,
	"too many posts are waiting for this chat; try again later",
)

// A webhookQueue accepts posts to hooks and sends them to their chats.
type webhookQueue struct {
	g     *Gateway
	queue *outbox.Outbox // destination: the chat
}

func newWebhookQueue(g *Gateway) *webhookQueue {
	q := &webhookQueue{g: g}
	q.queue = g.newOutbox(q.send, outbox.Options{
		Name:              hookQueue,
		Parallel:          16,
		MaxPerDestination: maxWebhookPosts,
		AfterSettled:      q.logOutcome,
	})
	return q
}

// serve accepts one signed post. It answers 200 once the post is on disk; the processing
// follows.
func (q *webhookQueue) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return newHTTPError(http.StatusMethodNotAllowed, "POST here, with a signature")
	}
	hook, secret, err := q.g.store.hookOf(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	leave, err := q.g.limiters.calls.acquire(r.Context(), hookPath+string(hook.Name), false)
	if err != nil {
		return err
	}
	defer leave()
	source, fresh, err := q.storePost(w, r, &hook, secret)
	if refused, ok := errors.AsType[*httpError](err); ok && refused.status < http.StatusInternalServerError {
		if noted := q.g.store.recordRefusal(context.WithoutCancel(r.Context()), hook.Name, refused.text); noted != nil {
			q.g.opts.Log.Warn().Err(noted).Str("hook", string(hook.Name)).Msg("refusal of a post not recorded")
		}
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(
		w,
		fmt.Sprintf("{\"event\":%s,\"status\":%q}\n", jsonString(source),
			map[bool]string{true: "accepted", false: "duplicate"}[fresh]),
	)
	return nil
}

// storePost verifies a post and stores it. It returns the sourceId of the post and whether it is
// new.
func (q *webhookQueue) storePost(
	w http.ResponseWriter,
	r *http.Request,
	hook *Hook,
	secret string,
) (source string, fresh bool, err error) {
	body, err := readBody(w, r)
	if err != nil {
		return "", false, err
	}
	id, err := checkSignature(r.Header, body, secret, q.g.opts.Now())
	if err != nil {
		return "", false, err
	}
	quotation, err := quotePost(r.Header, body)
	if err != nil {
		return "", false, err
	}
	source = hookLabel(hook.Name) + ":" + id
	content := protocol.ChatMessage{
		Text:      quotation,
		Event:     protocol.EventStatus,
		SourceID:  source,
		CreatedAt: protocol.FormatTime(q.g.opts.Now()),
		Author: &protocol.Author{
			ID:          hookLabel(hook.Name),
			Kind:        string(attention.AuthorSystem),
			DisplayName: string(hook.Name),
		},
	}
	if hook.Oblige {
		content.Event = protocol.EventAssignment
	}
	m := protocol.NewMessage(protocol.TypeChatMessage, q.g.opts.ID, content)
	if hook.Chat == protocol.PeerBroker {
		name := arrivedName(body, hook)
		if strings.ContainsRune(name, utf8.RuneError) {
			return "", false, newHTTPError(http.StatusBadRequest, "arrived must be valid Unicode")
		}
		m = collab.WorkArrived.Message(q.g.opts.ID, collab.ArrivedParams{Name: name})
	}
	if q.g.frameSize(len(hook.Chat), m)+frameMargin > q.g.opts.MaxFrame {
		return "", false, errFrameTooLarge
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return "", false, fmt.Errorf("encoding a post: %w", err)
	}
	// The caller may disconnect now; the post is stored nevertheless.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storeTimeout)
	defer cancel()
	err = store.InTx(ctx, q.g.store.db, func(tx *store.Tx) {
		fresh = tx.ExecCount(
			`INSERT INTO hook_post (hook, id, at) SELECT name, ?2, ?3 FROM hook WHERE name = ?1 ON CONFLICT DO NOTHING`,
			hook.Name,
			id,
			micros(q.g.opts.Now()),
		) > 0
		if fresh {
			var err error
			if fresh, err = q.queue.EnqueueTx(tx, string(hook.Chat), source, raw); errors.Is(err, outbox.ErrFull) {
				err = errHookFull
			}
			tx.Fail(err) // if not fresh, a removed hook of the same name took it
		}
	})
	return source, fresh, err
}

// arrivedName returns what has arrived, according to a post to a hook of the broker: its member
// "arrived", or the name of the hook.
func arrivedName(body []byte, hook *Hook) string {
	var post struct{ Arrived string }
	if json.Unmarshal(body, &post) != nil || strings.TrimSpace(post.Arrived) == "" {
		return string(hook.Name)
	}
	return post.Arrived
}

// quotePost returns the text of a post as a quotation: it mentions nobody and contains no
// commands. GitHub's name of the event comes first.
func quotePost(header http.Header, body []byte) (string, error) {
	text := string(body)
	if kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")); kind == "application/x-www-form-urlencoded" {
		if form, err := url.ParseQuery(text); err == nil && form.Has("payload") {
			text = form.Get("payload")
		}
	}
	if !utf8.ValidString(text) {
		return "", newHTTPError(http.StatusBadRequest, "the body is not valid UTF-8")
	}
	if strings.TrimSpace(text) == "" {
		return "", newHTTPError(http.StatusBadRequest, "the body is empty")
	}
	if event := strings.TrimSpace(header.Get("X-GitHub-Event")); event != "" && utf8.ValidString(event) {
		text = event + "\n" + text
	}
	return "> " + strings.ReplaceAll(strings.ReplaceAll(text, "\r", "\n"), "\n", "\n> "), nil
}

// send sends a post to its chat. Every attempt has the same message.
func (q *webhookQueue) send(ctx context.Context, item outbox.Item) error {
	var m protocol.Message
	if err := json.Unmarshal(item.Body, &m); err != nil {
		return outbox.Permanent(err)
	}
	return q.g.bus.Deliver(ctx, protocol.Topic(item.Destination), item.Attempt, m)
}

// logOutcome logs posts that will not reach their chat.
func (q *webhookQueue) logOutcome(item outbox.Item, outcome outbox.State, cause error) {
	if outcome != outbox.StateSent {
		q.g.opts.Log.Warn().
			Str("topic", item.Destination).
			Str("event", item.Key).
			Str("outcome", string(outcome)).
			Err(cause).
			Msg("post not accepted by its chat")
	}
}

// handle stores a post to a channel as an event of the channel. The answer goes to the
// newest callback of its service.
func (q *webhookQueue) handle(ctx context.Context, d *peer.Delivery) error {
	content, err := bridge.ParseHookMessage(d)
	if err != nil {
		return err
	}
	channel := protocol.PeerID(d.Topic)
	return store.InTx(ctx, q.g.store.db, func(tx *store.Tx) {
		last := one(
			tx,
			peer.Reject("there is no such channel; its service must first send a message in it"),
			store.Scalar[[]byte],
			`SELECT content FROM inbound WHERE channel = ? ORDER BY length(content) > 0 DESC, seq DESC LIMIT 1`,
			channel,
		)
		var before protocol.ChatMessage
		if content.Chat = (&protocol.Chat{ID: string(channel),
			Kind: string(attention.ConversationChannel)}); json.Unmarshal(
			last,
			&before,
		) == nil &&
			before.Chat != nil {
			content.Chat, content.MCP = before.Chat, before.MCP
		}
		raw, err := json.Marshal(content)
		tx.Fail(err)
		// No service's ID contains a tab.
		seq, fresh := store.One(
			tx,
			store.Scalar[int64],
			`INSERT INTO inbound (channel, external_id, source_id, message_id, content, callback, received_at)
			VALUES (?, ?, ?, ?, ?, x'', ?) ON CONFLICT DO NOTHING RETURNING seq`,
			channel,
			"\t"+content.SourceID,
			content.SourceID,
			protocol.NewMessageID(),
			raw,
			micros(q.g.opts.Now()),
		)
		if fresh {
			q.g.router.Deliver(tx, &bridge.Event{ID: seq, Chat: channel, Source: content.SourceID}, time.Time{})
		}
	})
}
