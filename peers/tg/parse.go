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

// A parsedUpdate is what one update means, before anything is looked up.
type parsedUpdate struct {
	chat    models.Chat
	user    int64 // who did it; 0 where Telegram does not say
	author  protocol.Author
	message int
	thread  int
	suffix  string // of the sourceId, for what is no message itself

	data  eventData
	files struct{ own, answered []attachment } // of the message, and of what it answers
	album string

	command   string // "/pair", without the bot's name
	arguments string
	present   *bool  // whether the bot is in the chat now; nil if that did not change
	callback  string // id of a callback query to answer
	skip      string // why no agent hears of it; empty: they do

	// A group that became a supergroup has another id, which Telegram tells in both
	// chats; else 0.
	moved struct{ from, to int64 }
}

// A eventData is the content of a tg_message as far as it is known when the update
// arrives. Mentions and the author of a quoted message depend on who is assigned
// when it is passed on.
type eventData struct {
	Content      protocol.ChatMessage  `json:"content"`
	Names        []string              `json:"names,omitempty"` // mentioned with @, lower case, in order
	ReplyMessage int                   `json:"replyMessage,omitempty"`
	ReplyToBot   bool                  `json:"replyToBot,omitempty"`
	ReplyUser    string                `json:"replyUser,omitempty"` // username of the quoted person
	ReplyName    string                `json:"replyName,omitempty"` // name of whoever wrote what is answered
	ReplyText    string                `json:"replyText,omitempty"` // what is answered, or the part of it that is quoted
	ReplyFiles   []protocol.Attachment `json:"replyFiles,omitempty"`
	Items        []albumItem           `json:"items,omitempty"` // of an album of more than one message, or of an edit in one
}

// parsesPartially reports whether a message can be read although some field of it has a shape that we
// do not know: that field is left out. What says who said what, and where, must be as we know it.
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

// parseUpdate returns what an update means. bot is the bot's own account.
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
		if h.command != "" {
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
		return parsedUpdate{}, errors.New("no kind of update that this bridge asked for")
	}
}

// parseMessage returns what a message means; raw is the same as it came.
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
	h.setContent(event, cmp.Or(expandLinks(text, entities), describe(m), richText(raw)), max(m.EditDate, m.Date))
	if event == protocol.EventEdit && m.Location != nil && text == "" { // nobody edits one: it moves, every few seconds
		h.suffix, h.data.Content.Event = ":moved:"+id(int64(m.EditDate)), protocol.EventStatus
		return h
	}
	if joined := membershipText(m, bot); joined != "" {
		h.data.Content.Event, h.data.Content.Text = protocol.EventMembership, joined
	} else if text == "" && len(h.files.own) == 0 {
		h.setKind(raw)
	}
	h.setQuote(m, raw, bot)
	if from := originalAuthor(m); from != "" { // its words are somebody else's: no command, no mention
		h.data.Content.Forwarded = from
		return h
	}
	h.data.Names = mentionedNames(text, entities)
	if h.parseCommand(text, bot) { // to this bot and no other: it is spoken to
		h.data.Names = appendUnique(h.data.Names, strings.ToLower(bot.Username))
	}
	return h
}

// setKind names what a message without text is. A service message tells of the chat,
// and asks nobody for anything.
func (h *parsedUpdate) setKind(raw json.RawMessage) {
	words, says := describeKind(raw, h.chat.Type == models.ChatTypePrivate)
	c := &h.data.Content
	if c.Text = cmp.Or(c.Text, words); c.Text == "" {
		h.skip = "a service message"
	} else if !says && c.Event == protocol.EventMessage {
		c.Event = protocol.EventStatus
	}
}

// setAuthor sets the author. A message in the name of a group or a channel is that
// chat's, whatever account Telegram shows.
func (h *parsedUpdate) setAuthor(u *models.User, sender *models.Chat) {
	if u != nil {
		h.user = u.ID
	}
	switch {
	case sender != nil:
		h.author = protocol.Author{ID: id(sender.ID), Kind: "human", DisplayName: sender.Title, Username: sender.Username}
	case u != nil:
		kind := "human"
		if u.IsBot {
			kind = "agent"
		}
		h.author = protocol.Author{ID: id(u.ID), Kind: kind, DisplayName: fullName(u.FirstName, u.LastName), Username: u.Username}
	default:
		h.author = protocol.Author{ID: id(h.chat.ID), Kind: "system", DisplayName: h.chat.Title}
	}
}

// generalThread is the General topic of a forum.
const generalThread = 1

// threadOf returns the topic of a message, 0 where the chat has none. A thread
// id on a message that is in no topic is only a chain of answers.
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

// setContent sets what is said in the chat, and when, in Telegram's seconds. A topic
// is a thread, General is the channel.
func (h *parsedUpdate) setContent(event, text string, seconds int) {
	in := protocol.Chat{ID: id(h.chat.ID), Kind: "channel", Title: h.chat.Title}
	if h.thread != 0 {
		in.ThreadID = strconv.Itoa(h.thread)
	}
	switch {
	case h.chat.Type == models.ChatTypePrivate:
		in.Kind, in.Title = "dm", fullName(h.chat.FirstName, h.chat.LastName)
	case h.thread > generalThread:
		in.Kind = "thread"
	}
	h.data.Content = protocol.ChatMessage{Text: text, Event: event, Chat: &in}
	if seconds > 0 {
		h.data.Content.CreatedAt = time.Unix(int64(seconds), 0).UTC().Format(time.RFC3339)
	}
}

// parseBusiness tells whoever connects the bot to a business account that it does not
// take part there.
func parseBusiness(c *models.BusinessConnection) parsedUpdate {
	h := parsedUpdate{chat: models.Chat{ID: c.UserChatID, Type: models.ChatTypePrivate}, suffix: ":business:" + c.ID}
	h.setAuthor(&c.User, nil)
	h.setContent(protocol.EventStatus, "", int(c.Date))
	if h.skip = "a business account was disconnected"; c.IsEnabled {
		h.command = businessConnected
	}
	return h
}

// setQuote sets which message is answered, and what it says: the bot may never have
// seen it. Every message in a topic quotes the topic's first message, which is no answer.
func (h *parsedUpdate) setQuote(m *models.Message, raw json.RawMessage, bot *models.User) {
	d := &h.data
	var answers struct {
		To json.RawMessage `json:"reply_to_message"`
	}
	_ = json.Unmarshal(raw, &answers) // it was read before
	if q := m.ReplyToMessage; q != nil && q.ForumTopicCreated == nil && (!m.IsTopicMessage || q.ID != m.MessageThreadID) {
		d.ReplyMessage, d.ReplyText = q.ID, cmp.Or(q.Text, q.Caption, describe(q), richText(answers.To), fileWords(q))
		h.files.answered = attachments(q)
		if q.From != nil {
			d.ReplyToBot, d.ReplyName = q.From.ID == bot.ID, nameOf(q.From)
			d.ReplyUser = cmp.Or(q.From.Username, id(q.From.ID))
		}
		if q.SenderChat != nil {
			d.ReplyName = q.SenderChat.Title
		}
		if from := originalAuthor(q); from != "" { // its words are somebody else's
			d.ReplyName = strings.TrimPrefix(d.ReplyName+", forwarded from ", ", ") + from
		}
	} else if e := m.ExternalReply; e != nil {
		other := models.Message{
			Animation: e.Animation, Audio: e.Audio, Document: e.Document, Photo: e.Photo, Sticker: e.Sticker, Video: e.Video, VideoNote: e.VideoNote,
			Voice: e.Voice, Story: e.Story, Checklist: e.Checklist, Contact: e.Contact, Dice: e.Dice, Location: e.Location, Poll: e.Poll, Venue: e.Venue,
		}
		h.files.answered = attachments(&other)
		d.ReplyName, d.ReplyText = originName(&e.Origin), cmp.Or(describe(&other), fileWords(&other), "[a message of another chat]")
	}
	if m.ReplyToStory != nil {
		d.ReplyName, d.ReplyText = chatName(&m.ReplyToStory.Chat), describe(&models.Message{Story: m.ReplyToStory})
	}
	if m.Quote != nil {
		d.ReplyText = m.Quote.Text
	}
	d.ReplyText = text.Clip(d.ReplyText, maxQuote)
}

// parseCommand parses a command of the bridge; any other stays a message, and so does an
// /ask that names nobody else, whose question is the chat's agent's. It reports whether a
// command names this bot, as in /ask@bot, or means it.
func (h *parsedUpdate) parseCommand(text string, bot *models.User) (addressed bool) {
	if !strings.HasPrefix(text, "/") {
		return false
	}
	word, rest, _ := strings.Cut(strings.Replace(text, "\n", " ", 1), " ")
	word, target, addressed := strings.Cut(strings.ToLower(word), "@")
	if addressed && !strings.EqualFold(target, bot.Username) {
		return false
	}
	rest = strings.TrimSpace(rest)
	if word == "/ask" && rest != "" && !asksAnother(rest, bot) {
		return true // whom else
	}
	if word != agentCommand && slices.ContainsFunc(bridgeCommands, func(c models.BotCommand) bool { return "/"+c.Command == word }) {
		h.command, h.arguments = word, rest
	}
	return addressed
}

// asksAnother reports whether a question begins with the name of somebody other than the bot.
func asksAnother(question string, bot *models.User) bool {
	name := bridge.LeadingName(question)
	return name != "" && !strings.EqualFold(name, bot.Username)
}

func parseReaction(r *models.MessageReactionUpdated, update int64) parsedUpdate {
	h := parsedUpdate{chat: r.Chat, message: r.MessageID, suffix: ":reaction:" + id(update)}
	h.setAuthor(r.User, r.ActorChat)
	emoji := added(r.OldReaction, r.NewReaction)
	if emoji == "" {
		h.skip = "a reaction was removed"
	}
	h.setContent(protocol.EventReaction, emoji, r.Date)
	h.data.ReplyMessage = r.MessageID
	return h
}

// added returns the emoji that is in the new reactions and not in the old.
func added(before, after []models.ReactionType) string {
	for i := range after {
		e := reactionText(&after[i])
		if !slices.ContainsFunc(before, func(r models.ReactionType) bool { return reactionText(&r) == e }) {
			return e
		}
	}
	return ""
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

// parseStop returns that a person stopped what a draft shows: that of the message whose number
// it has. Drafts are in direct chats only, so whose chat it is has pressed.
func parseStop(raw json.RawMessage, update int64) (parsedUpdate, error) {
	var s struct {
		Chat   models.Chat `json:"chat"`
		Thread int         `json:"message_thread_id"`
		Draft  int         `json:"draft_id"`
	}
	if err := json.Unmarshal(raw, &s); err != nil || s.Chat.Type != models.ChatTypePrivate || s.Draft <= 0 {
		return parsedUpdate{}, errors.New("a draft was stopped that is none of this bot's")
	}
	h := parsedUpdate{chat: s.Chat, message: s.Draft, thread: s.Thread, suffix: ":stop:" + id(update)}
	h.setAuthor(&models.User{ID: s.Chat.ID, FirstName: s.Chat.FirstName, LastName: s.Chat.LastName, Username: s.Chat.Username}, nil)
	h.setContent(protocol.EventReaction, "", 0) // Telegram does not say when
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
	h.setContent(protocol.EventMessage, q.Data, 0) // Telegram does not say when
	h.data.ReplyMessage, h.data.ReplyToBot = h.message, true
	if q.Data == "" {
		h.skip = "a button without data"
	}
	return h, nil
}
