package mx

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"maunium.net/go/mautrix/crypto/attachment"
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
		if errors.Is(err, mautrix.MForbidden) || errors.Is(err, mautrix.MNotFound) {
			// The invitation was withdrawn, or the successor of a private room has yet to invite the bot.
			return outbox.Drop(err)
		}
		return out.classifyError(err)
	}
	if o.event == "" { // else the answer was lost, and the event came back
		if err := out.checkMayShow(ctx, o); err != nil {
			return out.reportDelay(ctx, o, err)
		}
		if of.Attempt > 1 { // an earlier attempt may have sent it
			o.event, err = out.findSent(ctx, o)
		}
	}
	made := o.event
	if err == nil && (made == "" || o.kind == kindSignal) { // a signal also replaces the last one
		out.crash("sending")
		made, err = out.transmit(ctx, o)
		out.crash("sent")
	}
	if errors.Is(err, mautrix.MForbidden) && out.awaitsSuccessor(ctx, o.chat) {
		return out.reportDelay(ctx, o, outbox.Retry(0, fmt.Errorf("this room was upgraded, and the bot is not in its "+
			"successor yet; invite it there: %w", err)))
	}
	if err != nil {
		return out.reportDelay(ctx, o, out.classifyError(err))
	}
	return store.Exec(context.WithoutCancel(ctx), out.db, `UPDATE sends SET event = ? WHERE reply = ? AND part = ?`,
		made, o.Reply, o.Part)
}

// awaitsSuccessor reports whether a chat continues in a room that the bot has yet to join. Until then it may
// not be allowed to write to the upgraded one.
func (out *outbound) awaitsSuccessor(ctx context.Context, c *chat) bool {
	awaits, err := store.Read(ctx, out.db, func(tx *store.Tx) bool {
		return store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM aliases a WHERE a.chat = ? AND a.room <> ?
			AND NOT EXISTS (SELECT 1 FROM members m WHERE m.room = a.room AND m.user = ? AND m.joined))`,
			c.key, c.room, string(out.bot))
	})
	return err == nil && awaits
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
		if err := out.attach(ctx, &m, o.content.File, out.encrypts(o.chat)); err != nil {
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

// encrypts reports whether messages to a chat are encrypted.
func (out *outbound) encrypts(c *chat) bool { return c.encrypted && out.cipher != nil }

// put sends an event with its transaction ID, which stays readable in an encrypted one.
func (out *outbound) put(ctx context.Context, o *outgoing, kind string, content any) (string, error) {
	if out.encrypts(o.chat) && kind != "m.reaction" { // clients count reactions without a key
		sealed, err := out.cipher.encrypt(ctx, o.chat.room, kind, content)
		if err != nil {
			return "", fmt.Errorf("encrypting a message: %w", err)
		}
		kind, content = "m.room.encrypted", sealed
		out.crash("encrypted")
	}
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
	sent, err := out.api.SendMessageEvent(ctx, id.RoomID(o.chat.room), event.NewEventType(kind), members,
		mautrix.ReqSendEvent{TransactionID: o.txn})
	if err == nil && sent.EventID == "" {
		err = errNoAnswer
	}
	if err != nil {
		return "", err
	}
	return sent.EventID.String(), nil
}

// findSent returns the event that an earlier attempt at a part made, if there is one among the
// newest events of the room.
func (out *outbound) findSent(ctx context.Context, o *outgoing) (string, error) {
	var page struct {
		Chunk []rawEvent `json:"chunk"`
	}
	err := out.get(ctx, requestTime, mautrix.ClientURLPath{"v3", "rooms", o.chat.room, "messages"},
		map[string]string{"dir": "b", "limit": "100"}, &page)
	for i := range page.Chunk {
		e := &page.Chunk[i]
		if txn, shown := sentAs(e); e.Sender == string(out.bot) && txn == o.txn {
			return shown, nil
		}
	}
	return "", err
}

// sentAs returns the transaction ID in the content of an event, or "", and the message that people see:
// the event, or the one that it edits.
func sentAs(e *rawEvent) (txn, shown string) {
	var c struct {
		Txn string          `json:"dev.hubbub.txn"`
		Of  event.RelatesTo `json:"m.relates_to"`
	}
	_ = json.Unmarshal(e.Content, &c) // others may write anything there
	return c.Txn, cmp.Or(c.Of.GetReplaceID().String(), e.ID)
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
	for _, name := range bridge.MentionedNames(words, codeOrQuotes(words)) {
		for _, user := range out.called(tx, c.room, name) {
			if !slices.Contains(users, user) {
				users = append(users, user)
			}
		}
	}
	return users
}

// attach uploads a file and makes it the content of a message, with the text as its caption.
func (out *outbound) attach(ctx context.Context, m *event.MessageEventContent, f *protocol.File, encrypted bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	kind := http.DetectContentType(f.Data)
	upload := mautrix.ReqUploadMedia{ContentBytes: f.Data, ContentType: kind, FileName: f.Name}
	if encrypted {
		m.File = &event.EncryptedFileInfo{EncryptedFile: *attachment.NewEncryptedFile()}
		upload = mautrix.ReqUploadMedia{ContentBytes: slices.Clone(f.Data), ContentType: "application/octet-stream"}
		m.File.EncryptInPlace(upload.ContentBytes)
	}
	made, err := out.api.UploadMedia(ctx, upload)
	if statusOf(err) == http.StatusRequestEntityTooLarge {
		err = fmt.Errorf("the homeserver accepts no file of %d bytes: %w", len(f.Data), err)
	}
	if err != nil {
		return err
	}
	m.MsgType = event.MsgFile
	if as, _, _ := strings.Cut(kind, "/"); as == "image" || as == "audio" || as == "video" {
		m.MsgType = event.MessageType("m." + as)
	}
	if m.FileName = f.Name; encrypted {
		m.File.URL = made.ContentURI.CUString()
	} else {
		m.URL = made.ContentURI.CUString()
	}
	m.Body = cmp.Or(m.Body, f.Name)
	m.Info = &event.FileInfo{MimeType: kind, Size: len(f.Data)}
	return nil
}

// fetchFile fetches a file from the homeserver; see [bridge.FileServer]. The ID of an encrypted file
// is its address with its key, as JSON.
func (a *account) fetchFile(ctx context.Context, file, _ string) (*http.Response, string, error) {
	var sealed event.EncryptedFileInfo
	if json.Unmarshal([]byte(file), &sealed) == nil {
		file = string(sealed.URL)
	}
	uri, err := id.ParseContentURI(file)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %s is not the address of a file", bridge.ErrNoFile, file)
	}
	resp, err := a.api.Download(ctx, uri)
	if status := statusOf(err); status == http.StatusNotFound || status == http.StatusRequestEntityTooLarge {
		return nil, "", fmt.Errorf("the homeserver does not provide this file: %w", bridge.ErrNoFile)
	}
	if err == nil && sealed.URL != "" && resp.ContentLength <= bridge.MaxFile {
		data, err := io.ReadAll(io.LimitReader(resp.Body, bridge.MaxFile))
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return nil, "", err
		}
		if err := sealed.DecryptInPlace(data); err != nil {
			return nil, "", fmt.Errorf("%w: %w", bridge.ErrNoFile, err)
		}
		resp.Body = io.NopCloser(bytes.NewReader(data))
	}
	return resp, file, err
}

// perform performs an act of the bridge.
func (out *outbound) perform(ctx context.Context, a *act) (err error) {
	if a.Kind == actLeave {
		_, err = out.api.LeaveRoom(ctx, id.RoomID(a.Room), &mautrix.ReqLeave{Reason: a.Reason})
	} else {
		_, err = out.api.JoinRoom(ctx, a.Room, &mautrix.ReqJoinRoom{Via: a.Via})
	}
	return err
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
	case o.chat.encrypted && out.cipher == nil && o.kind != kindSignal: // signals are never encrypted
		return outbox.Permanent(errors.New("this room is encrypted, and the bridge runs without --encryption"))
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
	_, inWords := errors.AsType[mautrix.RespError](err)
	switch status := statusOf(err); {
	case err == nil:
		return nil
	case !settled:
		return err
	case errors.Is(err, mautrix.MUnknownToken):
		out.fatal(fmt.Errorf("%w: %w", ErrToken, err))
		return outbox.Retry(0, err)
	case retryAfter(err) > 0:
		return outbox.Retry(retryAfter(err), err)
	case status == 0:
		return outbox.Retry(0, fmt.Errorf("%w: %w", errNoAnswer, err))
	case !inWords && status != http.StatusRequestEntityTooLarge, // a proxy answered in place of the homeserver
		status >= 500, status/100 == 3:
		return outbox.Retry(0, err)
	}
	return outbox.Permanent(err)
}
