package tgtest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"
)

// Say is a user writing a text. Mentions, commands and addresses become
// entities as Telegram marks them. It returns the message.
func (s *Server) Say(c models.Chat, from models.User, text string) *models.Message {
	return s.Post(models.Message{Chat: c, From: &from, Text: text})
}

// Reply is a user answering a message.
func (s *Server) Reply(to *models.Message, from models.User, text string) *models.Message {
	quoted := *to
	quoted.ReplyToMessage = nil
	return s.Post(models.Message{
		Chat: to.Chat, From: &from, Text: text, ReplyToMessage: &quoted,
		MessageThreadID: to.MessageThreadID, IsTopicMessage: to.IsTopicMessage,
	})
}

// Post is any message of a user or of Telegram itself. The number, the date
// and, for texts, the entities are filled in. With privacy mode on, the bot of
// a group sees only what Telegram would show it.
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

// seenLocked reports whether privacy mode shows a message to the bot.
func (s *Server) seenLocked(m *models.Message) bool {
	if !s.privacy || m.Chat.Type == models.ChatTypePrivate {
		return true
	}
	service := m.Text == "" && m.Caption == "" && len(m.Photo) == 0 && m.Document == nil
	toBot := m.ReplyToMessage != nil && m.ReplyToMessage.From != nil && m.ReplyToMessage.From.ID == s.bot.ID
	return service || toBot || strings.HasPrefix(m.Text, "/") || strings.Contains(strings.ToLower(m.Text), "@"+strings.ToLower(s.bot.Username))
}

// EditText is a user changing a message, or the caption of one with files.
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

// Delete is an administrator deleting a message, of which bots hear nothing.
func (s *Server) Delete(m *models.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.chats[m.Chat.ID].messages, m.ID)
}

// React is a user replacing the reactions that they set on a message.
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

// Press is a user pressing a button under a message. It returns the query's id.
func (s *Server) Press(m *models.Message, from models.User, data string) string {
	id := "callback-" + data
	s.Inject(&models.Update{CallbackQuery: &models.CallbackQuery{
		ID: id, From: from, Data: data, ChatInstance: "1",
		Message: models.MaybeInaccessibleMessage{Type: models.MaybeInaccessibleMessageTypeMessage, Message: m},
	}})
	return id
}

// StopDraft is a user pressing the button under a draft.
func (s *Server) StopDraft(c models.Chat, draft int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := json.Marshal(map[string]any{"update_id": s.nextID, "stopped_message_generation": map[string]any{"chat": c, "draft_id": draft}})
	if err != nil {
		panic("an update that cannot be marshalled: " + err.Error())
	}
	if s.allowsLocked(kindOf(raw)) {
		s.queueLocked(s.nextID, raw)
		s.nextID++
	}
}

// The membership states that Member can set.
const (
	StatusMember  = models.ChatMemberTypeMember
	StatusAdmin   = models.ChatMemberTypeAdministrator
	StatusLeft    = models.ChatMemberTypeLeft
	StatusRemoved = models.ChatMemberTypeBanned
)

// Member is somebody changing the bot's own membership: adding it to a group,
// promoting, removing or blocking it.
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
		return models.ChatMember{Type: status, Administrator: &models.ChatMemberAdministrator{Status: status, User: bot}}
	case models.ChatMemberTypeLeft:
		return models.ChatMember{Type: status, Left: &models.ChatMemberLeft{Status: status, User: &bot}}
	case models.ChatMemberTypeBanned:
		return models.ChatMember{Type: status, Banned: &models.ChatMemberBanned{Status: status, User: &bot}}
	default:
		return models.ChatMember{Type: StatusMember, Member: &models.ChatMemberMember{Status: StatusMember, User: &bot}}
	}
}

// Topic makes a forum topic and returns its thread id.
func (s *Server) Topic(c models.Chat, title string) int {
	m := s.Post(models.Message{Chat: c, ForumTopicCreated: &models.ForumTopicCreated{Name: title}})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chats[c.ID].topics[m.ID] = title
	return m.ID
}

// SayIn is a user writing in a forum topic.
func (s *Server) SayIn(c models.Chat, topic int, from models.User, text string) *models.Message {
	return s.Post(models.Message{Chat: c, From: &from, Text: text, MessageThreadID: topic, IsTopicMessage: true})
}

// Album is a user sending several photos at once: separate messages that share
// a group id, the caption on the first.
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

// Migrate turns a group into a supergroup with a new id: both chats say so,
// and calls with the old id are refused from now on.
func (s *Server) Migrate(old models.Chat, newID int64) models.Chat {
	grown := s.MigrateSilently(old, newID)
	s.Post(models.Message{Chat: old, MigrateToChatID: newID})
	s.Post(models.Message{Chat: grown, MigrateFromChatID: old.ID})
	return grown
}

// MigrateSilently is Migrate of which the bot gets no update: it learns of it
// from the refusal of its next call.
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

// units counts UTF-16 code units, in which Telegram measures.
func units(s string) int { return len(utf16.Encode([]rune(s))) }
