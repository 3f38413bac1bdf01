package tg

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hubbub/peers/bridge"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/go-telegram/bot/models"
)

// A parsedUpdate is the content of an update, before anything is looked up.
type parsedUpdate struct {
	chat    models.Chat
	user    int64 // who caused it; 0 if Telegram does not say
	author  protocol.Author
	message int
	thread  int
	suffix  string // of the sourceId, for updates that are not messages

	data  eventData
	files struct{ own, answered []bridge.StoredFile } // of the message, and of the one that it answers
	album string

	command   string // such as "/pair", without the bot's name
	arguments string
	present   *bool  // whether the bot is in the chat; nil if unchanged
	callback  string // the ID of a callback query to answer
	skip      string // why no agent receives it; empty if the agents do

	// The old and the new ID of a group that became a supergroup; Telegram reports it in both
	// chats.
	moved struct{ from, to int64 }
}

// An eventData is the content of a tg_message as far as it is known when the update arrives.
// Mentions and the author of a quoted message depend on the agents that are assigned when it is
// delivered.
type eventData struct {
	Content      protocol.ChatMessage  `json:"content"`
	Names        []string              `json:"names,omitempty"` // mentioned with @, lower case, in order
	ReplyMessage int                   `json:"replyMessage,omitempty"`
	ReplyToBot   bool                  `json:"replyToBot,omitempty"`
	ReplyUser    string                `json:"replyUser,omitempty"` // username of the author of the answered message
	ReplyName    string                `json:"replyName,omitempty"` // name of the author of the answered message
	ReplyText    string                `json:"replyText,omitempty"` // the answered message, or the quoted part of it
	ReplyFiles   []protocol.Attachment `json:"replyFiles,omitempty"`
	Items        []albumItem           `json:"items,omitempty"` // of an album with several messages
	Removed      []string              `json:"-"`               // emoji that the author took back from the message
}

// parsesPartially reports whether a message can be used although a field has an unknown form and
// is left out. The fields that say who wrote what, and where, must have the known form.
func parsesPartially(as map[string]json.RawMessage, err error) bool {
	if _, shape := errors.AsType[*json.UnmarshalTypeError](err); !shape {
		return false
	}
	for _, kind := range []string{"message", "edited_message", "channel_post", "edited_channel_post"} {
		if raw := as[kind]; raw != nil {
			return json.Unmarshal(raw, &struct {
				ID         int                    `json:"message_id"`
				Date       int                    `json:"date"`
				Thread     int                    `json:"message_thread_id"`
				Chat       models.Chat            `json:"chat"`
				From       *models.User           `json:"from"`
				SenderChat *models.Chat           `json:"sender_chat"`
				ViaBot     *models.User           `json:"via_bot"`
				Origin     *models.MessageOrigin  `json:"forward_origin"`
				Automatic  bool                   `json:"is_automatic_forward"`
				ReplyTo    *models.Message        `json:"reply_to_message"`
				Quote      *models.TextQuote      `json:"quote"`
				Text       string                 `json:"text"`
				Caption    string                 `json:"caption"`
				Entities   []models.MessageEntity `json:"entities"`
				Marks      []models.MessageEntity `json:"caption_entities"`
			}{}) == nil
		}
	}
	return false
}

// parseUpdate parses an update for the given bot.
func parseUpdate(raw json.RawMessage, bot *models.User) (parsedUpdate, error) {
	var as map[string]json.RawMessage
	if err := json.Unmarshal(raw, &as); err != nil {
		return parsedUpdate{}, fmt.Errorf("the update cannot be read: %w", err)
	}
	var u models.Update
	if err := json.Unmarshal(raw, &u); err != nil && !parsesPartially(as, err) {
		return parsedUpdate{}, fmt.Errorf("the update cannot be read: %w", err)
	}
	switch {
	case u.Message != nil:
		return parseMessage(u.Message, as["message"], protocol.EventMessage, bot), nil
	case u.ChannelPost != nil:
		return parseMessage(u.ChannelPost, as["channel_post"], protocol.EventMessage, bot), nil
	case u.EditedMessage != nil, u.EditedChannelPost != nil:
		h := parseMessage(cmp.Or(u.EditedMessage, u.EditedChannelPost),
			slices.Concat(as["edited_message"], as["edited_channel_post"]), protocol.EventEdit, bot)
		if h.command != "" && !h.isQuestion() {
			h.command, h.skip = "", "a command was edited"
		}
		return h, nil
	case u.MessageReaction != nil:
		return parseReaction(u.MessageReaction, u.ID), nil
	case u.MyChatMember != nil:
		return parseMembership(u.MyChatMember, u.ID), nil
	case u.CallbackQuery != nil:
		return parseCallback(u.CallbackQuery, u.ID)
	case as[updateStopped] != nil:
		return parseStop(as[updateStopped], u.ID)
	case u.BusinessConnection != nil:
		return parseBusiness(u.BusinessConnection), nil
	default:
		return parsedUpdate{}, errors.New("a kind of update that this bridge did not request")
	}
}

// parseMessage converts a message; raw is its JSON.
func parseMessage(m *models.Message, raw json.RawMessage, event string, bot *models.User) parsedUpdate {
	h := parsedUpdate{chat: m.Chat, message: m.ID, thread: threadOf(m), album: m.MediaGroupID}
	h.files.own = attachments(m)
	switch {
	case m.MigrateToChatID != 0:
		h.moved.from, h.moved.to = m.Chat.ID, m.MigrateToChatID
	case m.MigrateFromChatID != 0:
		h.moved.from, h.moved.to = m.MigrateFromChatID, m.Chat.ID
	}
	h.setAuthor(m.From, m.SenderChat)
	text, entities := m.Text, m.Entities
	if text == "" {
		text, entities = m.Caption, m.CaptionEntities
	}
	marked := withMarks(text, entities)
	h.setContent(event, cmp.Or(marked, describe(m), richText(raw)), max(m.EditDate, m.Date))
	if event == protocol.EventEdit && m.Location != nil && text == "" { // a live location that moves, every few seconds
		h.suffix, h.data.Content.Event = ":moved:"+id(int64(m.EditDate)), protocol.EventStatus
		return h
	}
	if joined := membershipText(m, bot); joined != "" {
		h.data.Content.Event, h.data.Content.Text = protocol.EventMembership, joined
	} else if text == "" && len(h.files.own) == 0 {
		h.setKind(raw)
	}
	h.setQuote(m, raw, bot)
	if from := originalAuthor(m); from != "" { // text of somebody else contains no command and no mention
		h.data.Content.Forwarded = from
		return h
	}
	if text == "" {
		text = typedText(m, raw)
	}
	h.data.Names = mentionedNames(text, entities, bot)
	if h.parseCommand(marked, bot) { // a command to this bot only
		h.data.Names = bridge.AppendUnique(h.data.Names, strings.ToLower(bot.Username))
	}
	return h
}

// setKind describes a message without text by its kind. A service message is a status, which asks
// nobody for anything.
func (u *parsedUpdate) setKind(raw json.RawMessage) {
	words, says := describeKind(raw, u.chat.Type == models.ChatTypePrivate)
	c := &u.data.Content
	if c.Text = cmp.Or(c.Text, words); c.Text == "" {
		u.skip = "a service message"
	} else if !says && c.Event == protocol.EventMessage {
		c.Event = protocol.EventStatus
	}
}

// setAuthor sets the author. If a message was sent in the name of a group or channel, that is its
// author, whatever account Telegram shows.
func (u *parsedUpdate) setAuthor(user *models.User, sender *models.Chat) {
	if user != nil {
		u.user = user.ID
	}
	switch {
	case sender != nil:
		u.author = protocol.Author{ID: id(sender.ID), Kind: "human", DisplayName: sender.Title,
			Username: sender.Username}
	case user != nil:
		kind := "human"
		if user.IsBot {
			kind = "agent"
		}
		u.author = protocol.Author{ID: id(user.ID), Kind: kind, DisplayName: fullName(user.FirstName, user.LastName),
			Username: user.Username}
	default:
		u.author = protocol.Author{ID: id(u.chat.ID), Kind: "system", DisplayName: u.chat.Title}
	}
}

// generalThread is the General topic of a forum.
const generalThread = 1

// threadOf returns the topic of a message, or 0 if the chat has none. Outside of topics, Telegram
// uses the thread ID for chains of replies.
func threadOf(m *models.Message) int {
	switch {
	case m.IsTopicMessage && m.MessageThreadID != 0:
		return m.MessageThreadID
	case m.Chat.IsForum && m.Chat.Type != models.ChatTypePrivate:
		return generalThread
	default:
		return 0
	}
}

// setContent sets the text, its chat and its time in seconds.
func (u *parsedUpdate) setContent(event, text string, seconds int) {
	u.data.Content = protocol.ChatMessage{Text: text, Event: event}
	u.setThread(u.thread)
	if seconds > 0 {
		u.data.Content.CreatedAt = time.Unix(int64(seconds), 0).UTC().Format(time.RFC3339)
	}
}

// setThread sets the topic, and with it the chat of the content. A topic is a thread, except General, which
// is the channel.
func (u *parsedUpdate) setThread(thread int) {
	u.thread = thread
	in := protocol.Chat{ID: id(u.chat.ID), Kind: "channel", Title: u.chat.Title}
	if u.thread != 0 {
		in.ThreadID = strconv.Itoa(u.thread)
	}
	switch {
	case u.chat.Type == models.ChatTypePrivate:
		in.Kind, in.Title = "dm", fullName(u.chat.FirstName, u.chat.LastName)
	case u.thread > generalThread:
		in.Kind = "thread"
	}
	u.data.Content.Chat = &in
}

// parseBusiness converts the connection of a business account. The bot tells its owner that it
// does not take part there.
func parseBusiness(c *models.BusinessConnection) parsedUpdate {
	h := parsedUpdate{chat: models.Chat{ID: c.UserChatID, Type: models.ChatTypePrivate}, suffix: ":business:" + c.ID}
	h.setAuthor(&c.User, nil)
	h.setContent(protocol.EventStatus, "", int(c.Date))
	if h.skip = "a business account was disconnected"; c.IsEnabled {
		h.command = businessConnected
	}
	return h
}

// setQuote sets the message that is answered, with its text: the bot may never have seen it. In a
// topic, every message formally answers the topic's first message, which does not count.
func (u *parsedUpdate) setQuote(m *models.Message, raw json.RawMessage, bot *models.User) {
	d := &u.data
	var answers struct {
		To json.RawMessage `json:"reply_to_message"`
	}
	_ = json.Unmarshal(raw, &answers) // raw has been unmarshaled before
	if q := m.ReplyToMessage; q != nil && q.ForumTopicCreated == nil &&
		(!m.IsTopicMessage || q.ID != m.MessageThreadID) {
		d.ReplyMessage, d.ReplyText = q.ID, cmp.Or(withMarks(q.Text, q.Entities),
			withMarks(q.Caption, q.CaptionEntities), describe(q), richText(answers.To), fileWords(q))
		u.files.answered = attachments(q)
		if q.From != nil {
			d.ReplyToBot, d.ReplyName = q.From.ID == bot.ID, nameOf(q.From)
			d.ReplyUser = cmp.Or(q.From.Username, id(q.From.ID))
		}
		if q.SenderChat != nil {
			d.ReplyName = q.SenderChat.Title
		}
		if from := originalAuthor(q); from != "" { // text of somebody else
			d.ReplyName = strings.TrimPrefix(d.ReplyName+", forwarded from ", ", ") + from
		}
	} else if e := m.ExternalReply; e != nil {
		other := models.Message{
			Animation: e.Animation, Audio: e.Audio, Document: e.Document, Photo: e.Photo, Sticker: e.Sticker,
			Video: e.Video, VideoNote: e.VideoNote,
			Voice: e.Voice, Story: e.Story, Checklist: e.Checklist, Contact: e.Contact, Dice: e.Dice,
			Location: e.Location, Poll: e.Poll, Venue: e.Venue,
		}
		u.files.answered = attachments(&other)
		d.ReplyName, d.ReplyText = originName(&e.Origin),
			cmp.Or(describe(&other), fileWords(&other), "[a message from another chat]")
	}
	if m.ReplyToStory != nil {
		d.ReplyName, d.ReplyText = chatName(&m.ReplyToStory.Chat), describe(&models.Message{Story: m.ReplyToStory})
	}
	if m.Quote != nil {
		d.ReplyText = withMarks(m.Quote.Text, m.Quote.Entities)
	}
	d.ReplyText = text.Clip(d.ReplyText, bridge.MaxQuote)
}

// startParameter matches what a link to the bot makes a user send after /start.
var startParameter = text.Pattern(`^[A-Za-z0-9_-]{1,64}$`)

// parseCommand parses a command of the bridge. Any other command remains a message, and so does
// an /ask that names nobody else: it asks the chat's agent. parseCommand reports whether a
// command is addressed to this bot, as in /ask@bot, or by words after a command that takes none.
func (u *parsedUpdate) parseCommand(text string, bot *models.User) (addressed bool) {
	if strings.HasPrefix(text, "／") { // of Chinese and Japanese keyboards
		text = "/" + strings.TrimPrefix(text, "／")
	}
	if !strings.HasPrefix(text, "/") {
		return false
	}
	word, rest := bridge.SplitCommand(text)
	word, target, addressed := strings.Cut(word, "@")
	if addressed && !strings.EqualFold(target, bot.Username) {
		return false
	}
	if word == "/ask" && rest != "" && !asksAnother(rest, bot) {
		return true // the chat's own agent
	}
	if bridge.IsCommand(word[1:]) {
		u.command, u.arguments = word, rest
	}
	return addressed || u.isQuestion()
}

// isQuestion reports whether a command has words that make it a message for the agents.
func (u *parsedUpdate) isQuestion() bool {
	return bridge.IsQuestion(u.command, u.arguments) &&
		!(u.command == "/start" && startParameter().MatchString(u.arguments))
}

// asksAnother reports whether a question begins with the name of somebody other than the bot.
func asksAnother(question string, bot *models.User) bool {
	name := bridge.LeadingName(question)
	return name != "" && !strings.EqualFold(name, bot.Username)
}

func parseReaction(r *models.MessageReactionUpdated, update int64) parsedUpdate {
	h := parsedUpdate{chat: r.Chat, message: r.MessageID, suffix: ":reaction:" + id(update)}
	h.setAuthor(r.User, r.ActorChat)
	h.data.Removed = added(r.NewReaction, r.OldReaction)
	emoji := ""
	if news := added(r.OldReaction, r.NewReaction); news != nil {
		emoji = news[0]
	} else {
		h.skip = "a reaction was removed"
	}
	h.setContent(protocol.EventReaction, emoji, r.Date)
	h.data.ReplyMessage = r.MessageID
	return h
}

// added returns the emoji that are only among the new reactions.
func added(before, after []models.ReactionType) (list []string) {
	for i := range after {
		e := reactionText(&after[i])
		if !slices.ContainsFunc(before, func(r models.ReactionType) bool { return reactionText(&r) == e }) {
			list = append(list, e)
		}
	}
	return list
}

func reactionText(r *models.ReactionType) string {
	switch {
	case r.ReactionTypeEmoji != nil:
		return r.ReactionTypeEmoji.Emoji
	case r.ReactionTypeCustomEmoji != nil:
		return "custom emoji " + r.ReactionTypeCustomEmoji.CustomEmojiID
	default:
		return "⭐"
	}
}

func parseMembership(m *models.ChatMemberUpdated, update int64) parsedUpdate {
	h := parsedUpdate{chat: m.Chat, suffix: ":member:" + id(update)}
	h.setAuthor(&m.From, nil)
	before, after := isIn(&m.OldChatMember), isIn(&m.NewChatMember)
	words := "changed the bot's rights here"
	switch {
	case after && !before:
		h.present, words = new(true), "added the bot"
	case !after:
		h.present, words = new(false), "removed the bot"
	case m.NewChatMember.Type == models.ChatMemberTypeAdministrator:
		h.present, words = new(true), "made the bot an administrator"
	}
	h.setContent(protocol.EventMembership, h.author.DisplayName+" "+words, m.Date)
	if m.Chat.Type == models.ChatTypePrivate {
		h.skip = "a user started or blocked the bot"
	}
	return h
}

func isIn(m *models.ChatMember) bool {
	switch m.Type {
	case models.ChatMemberTypeLeft, models.ChatMemberTypeBanned, "":
		return false
	case models.ChatMemberTypeRestricted:
		return m.Restricted == nil || m.Restricted.IsMember
	default:
		return true
	}
}

// parseStop converts the press of the button under a draft into a reaction to the message whose
// number the draft has. Only direct chats have drafts, so the chat identifies the user.
func parseStop(raw json.RawMessage, update int64) (parsedUpdate, error) {
	var s struct {
		Chat   models.Chat `json:"chat"`
		Thread int         `json:"message_thread_id"`
		Draft  int         `json:"draft_id"`
	}
	if err := json.Unmarshal(raw, &s); err != nil || s.Chat.Type != models.ChatTypePrivate || s.Draft <= 0 {
		return parsedUpdate{}, errors.New("the stopped draft does not belong to this bot")
	}
	h := parsedUpdate{chat: s.Chat, message: s.Draft, thread: s.Thread, suffix: ":stop:" + id(update)}
	h.setAuthor(&models.User{ID: s.Chat.ID, FirstName: s.Chat.FirstName, LastName: s.Chat.LastName,
		Username: s.Chat.Username}, nil)
	h.setContent(protocol.EventReaction, "", 0) // Telegram gives no time
	h.data.Content.Signal, h.data.ReplyMessage = protocol.SignalStop, s.Draft
	return h, nil
}

func parseCallback(q *models.CallbackQuery, update int64) (parsedUpdate, error) {
	h := parsedUpdate{suffix: ":button:" + id(update), callback: q.ID}
	switch {
	case q.Message.Message != nil:
		h.chat, h.message, h.thread = q.Message.Message.Chat, q.Message.Message.ID, threadOf(q.Message.Message)
	case q.Message.InaccessibleMessage != nil && q.Message.InaccessibleMessage.Chat.ID != 0:
		h.chat, h.message = q.Message.InaccessibleMessage.Chat, q.Message.InaccessibleMessage.MessageID
	default:
		return h, errors.New("a button outside of any chat was pressed")
	}
	h.setAuthor(&q.From, nil)
	h.setContent(protocol.EventMessage, q.Data, 0) // Telegram gives no time
	h.data.ReplyMessage, h.data.ReplyToBot = h.message, true
	if q.Data == "" {
		h.skip = "a button without data"
	}
	return h, nil
}
