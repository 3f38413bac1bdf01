package mx

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"hubbub/peers/bridge"
	"hubbub/peers/markdown"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

// txnKey is the member of an event's content that holds its transaction ID. A homeserver may forget
// transaction IDs when it restarts; the event itself still tells that it was sent.
const txnKey = "dev.hubbub.txn"

// send makes one attempt to send an item.
func (out *outbound) send(ctx context.Context, of outbox.Item) error {
	var o *outgoing
	var err error
	if failed := store.Autocommit(ctx, out.db,
		func(tx *store.Tx) { o, err = out.outgoing(tx, &of) }); failed != nil || err != nil {
		return cmp.Or(err, failed)
	}
	if o.Act != nil {
		err := out.perform(ctx, o.Act)
		if code := errorCode(err); code == "M_FORBIDDEN" || code == "M_NOT_FOUND" {
			// The invitation was withdrawn, or the successor of a private room has yet to invite the bot.
			return outbox.Drop(err)
		}
		return out.classifyError(err)
	}
	if o.event != "" { // the answer was lost, and the event came back
		out.sent.Store(of.ID, o.event)
		return nil
	}
	if err := out.checkMayShow(ctx, o); err != nil {
		return out.reportDelay(ctx, o, err)
	}
	begun, err := store.Read(ctx, out.db, func(tx *store.Tx) int64 {
		return store.Value[int64](tx, `UPDATE sends SET begun_at = ?3 WHERE reply = ?1 AND part = ?2
			RETURNING (SELECT begun_at FROM sends WHERE reply = ?1 AND part = ?2)`, o.Reply, o.Part, nowMicros())
	})
	if err != nil {
		return err
	}
	made := ""
	if of.Attempt > 1 && begun > 0 { // an earlier attempt may have sent it
		if made, err = out.findSent(ctx, o); err != nil {
			return out.reportDelay(ctx, o, out.classifyError(err))
		}
	}
	if made == "" {
		out.crash("sending")
		made, err = out.transmit(ctx, o)
		out.crash("sent")
	}
	if err != nil {
		return out.reportDelay(ctx, o, out.classifyError(err))
	}
	out.sent.Store(of.ID, made)
	return nil
}

// transmit sends a part and returns the ID of the event that it became, if any.
func (out *outbound) transmit(ctx context.Context, o *outgoing) (string, error) {
	if o.kind == kindSignal {
		return out.react(ctx, o)
	}
	var t markdown.Message
	if err := json.Unmarshal([]byte(o.body), &t); err != nil {
		return "", outbox.Permanent(fmt.Errorf("part %d cannot be read: %w", o.Part, err))
	}
	m := event.MessageEventContent{MsgType: event.MsgText, Body: t.Text, Mentions: &event.Mentions{}}
	if t.HTML != "" {
		m.Format, m.FormattedBody = event.FormatHTML, t.HTML
	}
	if o.agent == "" {
		m.MsgType = event.MsgNotice
	}
	if o.kind == kindFile {
		if err := out.attach(ctx, &m, o.content.File); err != nil {
			return "", err
		}
	}
	var edits string
	err := store.Autocommit(ctx, out.db, func(tx *store.Tx) {
		m.Mentions.UserIDs = out.mentioned(tx, o.chat, t.Text)
		edits = out.editTarget(tx, o)
		m.RelatesTo = relationFor(tx, o)
	})
	if err != nil {
		return "", err
	}
	if edits != "" {
		m.RelatesTo = nil
		m.SetEdit(id.EventID(edits))
		m.Body, m.Format, m.FormattedBody = text.Clip(m.Body, bridge.MaxQuote), "", "" // for clients without edits
	}
	made, err := out.put(ctx, o, "m.room.message", &m)
	if edits != "" && err == nil {
		return edits, nil // people see the edited message
	}
	return made, err
}

// put sends an event with its transaction ID.
func (out *outbound) put(ctx context.Context, o *outgoing, kind string, content any) (string, error) {
	var members map[string]any
	if err := json.Unmarshal([]byte(mustJSON(content)), &members); err != nil {
		return "", outbox.Permanent(err)
	}
	members[txnKey] = o.txn
	plain := new(bytes.Buffer) // as homeservers count: without escapes for HTML
	encoder := json.NewEncoder(plain)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(members); err != nil {
		return "", outbox.Permanent(err)
	}
	if n := plain.Len(); n > maxEvent-4<<10 { // the homeserver adds its part
		return "", outbox.Permanent(fmt.Errorf("the event has %d bytes, which is more than Matrix accepts", n))
	}
	var sent mautrix.RespSendEvent
	err := out.call(ctx, http.MethodPut, mautrix.ClientURLPath{"v3", "rooms", o.chat.room, "send", kind, o.txn}, nil,
		members, &sent)
	if err == nil && sent.EventID == "" {
		err = errNoAnswer
	}
	return sent.EventID.String(), err
}

// findSent returns the event that an earlier attempt at a part made, if there is one among the
// newest events of the room.
func (out *outbound) findSent(ctx context.Context, o *outgoing) (string, error) {
	var page struct {
		Chunk []rawEvent `json:"chunk"`
	}
	err := out.call(ctx, http.MethodGet, mautrix.ClientURLPath{"v3", "rooms", o.chat.room, "messages"},
		map[string]string{"dir": "b", "limit": "100"}, nil, &page)
	for i := range page.Chunk {
		e := &page.Chunk[i]
		var content map[string]json.RawMessage
		if e.Sender != string(out.bot) || json.Unmarshal(e.Content, &content) != nil {
			continue
		}
		var txn string
		if json.Unmarshal(content[txnKey], &txn) == nil && txn == o.txn {
			return e.ID, nil
		}
	}
	return "", err
}

// editTarget returns the message that an edit replaces, or "" if it is not known to have been
// sent. Only the first text of an edit replaces a message; the others follow as new ones.
func (out *outbound) editTarget(tx *store.Tx, o *outgoing) string {
	if o.kind != kindText || o.content.Edits == "" || o.Part != 0 {
		return ""
	}
	return store.Value[string](tx, `SELECT s.event FROM sends s JOIN replies r ON r.id = s.reply
		WHERE r.chat = ? AND r.agent = ? AND r.key = ? AND s.kind = 'text' ORDER BY s.part LIMIT 1`, o.chat.key, o.agent,
		o.content.Edits)
}

// threadFor returns the thread of a reply: the one that it names, else that of the message that it
// answers.
func threadFor(tx *store.Tx, content *protocol.ChatReply) string {
	if strings.HasPrefix(content.ThreadID, "$") {
		return content.ThreadID
	}
	return store.Value[string](tx, `SELECT thread FROM events WHERE source_id = ? ORDER BY id DESC LIMIT 1`,
		content.InReplyTo)
}

// relationFor returns the thread of a part and the message that it quotes: the one that the reply
// names or, in a room with others, the one that it answers. Only the first text quotes a message.
func relationFor(tx *store.Tx, o *outgoing) *event.RelatesTo {
	source := o.content.ReplyTo
	if source == "" && !o.chat.isDirect() {
		source = o.content.InReplyTo
	}
	quoted := eventOf(source)
	if o.Part > 0 || store.Value[string](tx, `SELECT kind FROM sends WHERE event = ?`, quoted) == kindSignal ||
		!strings.HasPrefix(quoted, "$") {
		quoted = ""
	}
	r := &event.RelatesTo{}
	if thread := threadFor(tx, &o.content); thread != "" {
		r.SetThread(id.EventID(thread), id.EventID(cmp.Or(quoted, thread)))
		r.IsFallingBack = quoted == ""
		return r
	}
	if quoted == "" {
		return nil
	}
	return r.SetReplyTo(id.EventID(quoted))
}

// mentioned returns the members of a room that a text names, so that their clients notify them.
func (out *outbound) mentioned(tx *store.Tx, c *chat, words string) (users []id.UserID) {
	names := bridge.MentionedNames(words, func(at int) bool { return isSilent(words, at) })
	if len(names) == 0 {
		return nil
	}
	for _, m := range out.members(tx, c.room) {
		if m.user != string(out.bot) && slices.ContainsFunc(names, m.isCalled) {
			users = append(users, id.UserID(m.user))
		}
	}
	return users
}

// attach uploads a file and makes it the content of a message, with the text as its caption.
func (out *outbound) attach(ctx context.Context, m *event.MessageEventContent, f *protocol.File) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	kind := http.DetectContentType(f.Data)
	made, err := out.api.UploadMedia(ctx,
		mautrix.ReqUploadMedia{ContentBytes: f.Data, ContentType: kind, FileName: f.Name})
	if statusOf(err) == http.StatusRequestEntityTooLarge {
		err = fmt.Errorf("the homeserver accepts no file of %d bytes: %w", len(f.Data), err)
	}
	if err != nil {
		return err
	}
	m.MsgType = event.MsgFile
	for prefix, as := range map[string]event.MessageType{
		"image/": event.MsgImage, "audio/": event.MsgAudio, "video/": event.MsgVideo,
	} {
		if strings.HasPrefix(kind, prefix) {
			m.MsgType = as
		}
	}
	m.URL, m.FileName = made.ContentURI.CUString(), f.Name
	m.Body = cmp.Or(m.Body, f.Name)
	m.Info = &event.FileInfo{MimeType: kind, Size: len(f.Data)}
	return nil
}

// fetchFile fetches a file from the homeserver; see [bridge.FileServer]. The ID of an encrypted file
// is its address with its key, as JSON.
func (a *account) fetchFile(ctx context.Context, file, _ string) (*http.Response, string, error) {
	uri, err := id.ParseContentURI(file)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %s is no address of a file", bridge.ErrNoFile, file)
	}
	resp, err := a.api.Download(ctx, uri)
	if status := statusOf(err); status == http.StatusNotFound || status == http.StatusRequestEntityTooLarge {
		return nil, "", fmt.Errorf("the homeserver does not provide this file: %w", bridge.ErrNoFile)
	}
	return resp, file, err
}

// perform performs an act of the bridge.
func (out *outbound) perform(ctx context.Context, a *act) error {
	switch a.Kind {
	case actJoin:
		var via []string
		if a.Via != "" {
			via = []string{a.Via}
		}
		ctx, cancel := context.WithTimeout(ctx, requestTime)
		defer cancel()
		_, err := out.api.JoinRoom(ctx, a.Room, &mautrix.ReqJoinRoom{Via: via})
		return err
	default:
		return out.call(ctx, http.MethodPost, mautrix.ClientURLPath{"v3", "rooms", a.Room, "leave"}, nil,
			map[string]string{"reason": a.Reason}, nil)
	}
}

// checkMayShow returns why a reply must not be shown, or nil. The reason is the state of the chat,
// or a claim of another agent.
func (out *outbound) checkMayShow(ctx context.Context, o *outgoing) error {
	var admitted, partlyShown bool
	err := store.Autocommit(ctx, out.db, func(tx *store.Tx) {
		admitted = out.admitsChat(tx, o.chat)
		partlyShown = store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM sends WHERE reply = ? AND kind <> 'signal'
			AND event <> '')`, o.Reply)
	})
	v := o.content.Visibility
	switch {
	case err != nil:
		return err
	case !o.chat.present:
		return outbox.Permanent(errNotJoined)
	case o.agent == "":
		return nil
	case !o.chat.isDirect() && (v == "dm" || v == "ephemeral"):
		return outbox.Permanent(fmt.Errorf("a reply with the visibility %q would be seen by everybody in this room; "+
			"send it to the person's direct room", v))
	case o.chat.stopped:
		return outbox.Permanent(errors.New("a person stopped this chat; !start resumes it"))
	case !admitted:
		return outbox.Permanent(errors.New("this room is no longer admitted"))
	case o.kind == kindSignal, partlyShown:
		return nil
	}
	return out.router.AuthorizeReply(ctx, protocol.PeerID(o.agent), &o.content)
}

// classifyError decides what follows from a failed request. A repeated request has no further
// effect, so whatever may succeed later is repeated.
func (out *outbound) classifyError(err error) error {
	_, settled := errors.AsType[mautrix.HTTPError](err)
	switch status, code := statusOf(err), errorCode(err); {
	case err == nil:
		return nil
	case !settled:
		return err
	case code == "M_UNKNOWN_TOKEN":
		out.fatal(fmt.Errorf("%w: %w", ErrToken, err))
		return outbox.Retry(0, err)
	case retryAfter(err) > 0:
		return outbox.Retry(retryAfter(err), err)
	case status == 0:
		return outbox.Retry(0, fmt.Errorf("%w: %w", errNoAnswer, err))
	case code == "" && status != http.StatusRequestEntityTooLarge: // a proxy answered in place of the homeserver
		return outbox.Retry(0, err)
	case status >= 500, status/100 == 3:
		return outbox.Retry(0, err)
	}
	return outbox.Permanent(err)
}
