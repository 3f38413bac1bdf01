package tgtest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"
)

// Say makes a user send a text. Mentions, commands and addresses become entities as in Telegram.
// It returns the message.
func (s *Server) Say(c models.Chat, from models.User, text string) *models.Message {
	return s.Post(models.Message{Chat: c, From: &from, Text: text})
}

// Reply makes a user reply to a message.
func (s *Server) Reply(to *models.Message, from models.User, text string) *models.Message {
	quoted := *to
	quoted.ReplyToMessage = nil
	return s.Post(models.Message{
		Chat: to.Chat, From: &from, Text: text, ReplyToMessage: &quoted,
		MessageThreadID: to.MessageThreadID, IsTopicMessage: to.IsTopicMessage,
	})
}

// Post sends any message from a user or from Telegram itself. It fills in the number, the date
// and, for texts, the entities. With privacy mode on, the bot receives from a group only what
// Telegram would show it.
func (s *Server) Post(m models.Message) *models.Message {
	s.AddChat(m.Chat)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[m.Chat.ID]
	c.lastID++
	m.ID, m.Chat, m.Date = c.lastID, c.Chat, int(s.now().Unix())
	if m.Text != "" && m.Entities == nil {
		m.Entities = Entities(m.Text)
	}
	stored := m
	c.messages[m.ID] = &stored
	if s.seenLocked(&m) {
		s.injectLocked(&models.Update{Message: &m})
	}
	return &stored
}

// seenLocked reports whether privacy mode lets the bot see a message.
func (s *Server) seenLocked(m *models.Message) bool {
	if !s.privacy || m.Chat.Type == models.ChatTypePrivate {
		return true
	}
	service := m.Text == "" && m.Caption == "" && len(m.Photo) == 0 && m.Document == nil
	toBot := m.ReplyToMessage != nil && m.ReplyToMessage.From != nil && m.ReplyToMessage.From.ID == s.bot.ID
	return service || toBot || strings.HasPrefix(m.Text, "/") ||
		strings.Contains(strings.ToLower(m.Text), "@"+strings.ToLower(s.bot.Username))
}

// EditText makes a user edit a message, or the caption of a message with files.
func (s *Server) EditText(m *models.Message, text string) *models.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := *m
	if m.Photo == nil && m.Document == nil {
		changed.Text, changed.Entities = text, Entities(text)
	} else {
		changed.Caption, changed.CaptionEntities = text, Entities(text)
	}
	changed.EditDate = int(s.now().Unix())
	stored := changed
	s.chats[m.Chat.ID].messages[m.ID] = &stored
	s.injectLocked(&models.Update{EditedMessage: &changed})
	return &stored
}

// Delete makes an administrator delete a message. Bots are not informed.
func (s *Server) Delete(m *models.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.chats[m.Chat.ID].messages, m.ID)
}

// React makes a user replace their reactions to a message.
func (s *Server) React(c models.Chat, from models.User, messageID int, old []string, now ...string) {
	s.Inject(&models.Update{MessageReaction: &models.MessageReactionUpdated{
		Chat: c, MessageID: messageID, User: &from, Date: int(s.now().Unix()),
		OldReaction: emojis(old), NewReaction: emojis(now),
	}})
}

func emojis(list []string) []models.ReactionType {
	out := []models.ReactionType{}
	for _, e := range list {
		out = append(out, models.ReactionType{
			Type:              models.ReactionTypeTypeEmoji,
			ReactionTypeEmoji: &models.ReactionTypeEmoji{Type: models.ReactionTypeTypeEmoji, Emoji: e},
		})
	}
	return out
}

// Press makes a user press a button under a message. It returns the ID of the query.
func (s *Server) Press(m *models.Message, from models.User, data string) string {
	id := "callback-" + data
	s.Inject(&models.Update{CallbackQuery: &models.CallbackQuery{
		ID: id, From: from, Data: data, ChatInstance: "1",
		Message: models.MaybeInaccessibleMessage{Type: models.MaybeInaccessibleMessageTypeMessage, Message: m},
	}})
	return id
}

// StopDraft makes a user press the button under a draft.
func (s *Server) StopDraft(c models.Chat, draft int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := json.Marshal(map[string]any{"update_id": s.nextID,
		"stopped_message_generation": map[string]any{"chat": c, "draft_id": draft}})
	if err != nil {
		panic("an update that cannot be marshalled: " + err.Error())
	}
	if s.allowsLocked(kindOf(raw)) {
		s.queueLocked(s.nextID, raw)
		s.nextID++
	}
}

// The states of membership for Member.
const (
	StatusMember  = models.ChatMemberTypeMember
	StatusAdmin   = models.ChatMemberTypeAdministrator
	StatusLeft    = models.ChatMemberTypeLeft
	StatusRemoved = models.ChatMemberTypeBanned
)

// Member makes a user change the bot's own membership: add it to a group, promote, remove or
// block it.
func (s *Server) Member(c models.Chat, by models.User, before, after models.ChatMemberType) {
	s.AddChat(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch known := s.chats[c.ID]; {
	case after != StatusLeft && after != StatusRemoved:
		known.refuses = ""
	case c.Type == models.ChatTypePrivate:
		known.refuses = "bot was blocked by the user"
	default:
		known.refuses = "bot was kicked from the " + string(c.Type) + " chat"
	}
	s.injectLocked(&models.Update{MyChatMember: &models.ChatMemberUpdated{
		Chat: c, From: by, Date: int(s.now().Unix()),
		OldChatMember: s.member(before), NewChatMember: s.member(after),
	}})
}

func (s *Server) member(status models.ChatMemberType) models.ChatMember {
	bot := s.bot
	switch status {
	case models.ChatMemberTypeAdministrator:
		return models.ChatMember{Type: status,
			Administrator: &models.ChatMemberAdministrator{Status: status, User: bot}}
	case models.ChatMemberTypeLeft:
		return models.ChatMember{Type: status, Left: &models.ChatMemberLeft{Status: status, User: &bot}}
	case models.ChatMemberTypeBanned:
		return models.ChatMember{Type: status, Banned: &models.ChatMemberBanned{Status: status, User: &bot}}
	default:
		return models.ChatMember{Type: StatusMember, Member: &models.ChatMemberMember{Status: StatusMember, User: &bot}}
	}
}

// Topic creates a forum topic and returns its thread ID.
func (s *Server) Topic(c models.Chat, title string) int {
	m := s.Post(models.Message{Chat: c, ForumTopicCreated: &models.ForumTopicCreated{Name: title}})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chats[c.ID].topics[m.ID] = title
	return m.ID
}

// SayIn makes a user send a text to a forum topic.
func (s *Server) SayIn(c models.Chat, topic int, from models.User, text string) *models.Message {
	return s.Post(models.Message{Chat: c, From: &from, Text: text, MessageThreadID: topic, IsTopicMessage: true})
}

// Album makes a user send several photos at once: separate messages with a common group ID and
// the caption on the first.
func (s *Server) Album(c models.Chat, from models.User, caption string, fileIDs ...string) []*models.Message {
	var out []*models.Message
	for i, id := range fileIDs {
		m := models.Message{
			Chat: c, From: &from, MediaGroupID: "album-" + fileIDs[0],
			Photo: []models.PhotoSize{{FileID: id, FileUniqueID: "u" + id, Width: 90, Height: 90, FileSize: 100}},
		}
		if i == 0 {
			m.Caption = caption
		}
		out = append(out, s.Post(m))
	}
	return out
}

// Migrate turns a group into a supergroup with a new ID. Both chats report it, and calls with the
// old ID are refused from then on.
func (s *Server) Migrate(old models.Chat, newID int64) models.Chat {
	grown := s.MigrateSilently(old, newID)
	s.Post(models.Message{Chat: old, MigrateToChatID: newID})
	s.Post(models.Message{Chat: grown, MigrateFromChatID: old.ID})
	return grown
}

// MigrateSilently is like Migrate, but the bot gets no update. It learns of the new ID when its
// next call is refused.
func (s *Server) MigrateSilently(old models.Chat, newID int64) models.Chat {
	grown := s.AddChat(models.Chat{ID: newID, Type: models.ChatTypeSupergroup, Title: old.Title})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chats[old.ID].migratedTo = newID
	return grown
}

var (
	mentionPattern = regexp.MustCompile(`@[A-Za-z][A-Za-z0-9_]{3,31}`)
	commandPattern = regexp.MustCompile(`/[A-Za-z0-9_]{1,32}(@[A-Za-z0-9_]{3,32})?`)
)

// Entities marks the mentions and commands of a text as Telegram does.
func Entities(text string) []models.MessageEntity {
	var out []models.MessageEntity
	add := func(kind models.MessageEntityType, span []int) {
		if span[0] > 0 && !strings.ContainsRune(" \n(", rune(text[span[0]-1])) {
			return
		}
		out = append(out, models.MessageEntity{
			Type: kind, Offset: units(text[:span[0]]), Length: units(text[span[0]:span[1]]),
		})
	}
	for _, span := range mentionPattern.FindAllStringIndex(text, -1) {
		add(models.MessageEntityTypeMention, span)
	}
	for _, span := range commandPattern.FindAllStringIndex(text, -1) {
		add(models.MessageEntityTypeBotCommand, span)
	}
	slices.SortFunc(out, func(a, b models.MessageEntity) int { return a.Offset - b.Offset })
	return out
}

// units returns the number of UTF-16 code units, Telegram's unit of length.
func units(s string) int { return len(utf16.Encode([]rune(s))) }
