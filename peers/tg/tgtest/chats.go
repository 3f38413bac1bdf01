package tgtest

import (
	"net/http"
	"strings"

	"github.com/go-telegram/bot/models"
)

// A chat is Telegram's state of one chat of the bot.
type chat struct {
	models.Chat
	messages   map[int]*models.Message
	lastID     int
	topics     map[int]string // titles of forum topics by thread ID
	reactions  map[int][]models.ReactionType
	migratedTo int64
	refuses    string // why the bot may not write, in Telegram's words
}

// User returns a new user with an ID of its own. The username is the name in lower case.
func (s *Server) User(name string) models.User {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextUser++
	return models.User{ID: s.nextUser, FirstName: name, Username: strings.ToLower(name)}
}

// DM returns the direct chat of a user with the bot.
func (s *Server) DM(u models.User) models.Chat {
	return s.AddChat(models.Chat{ID: u.ID, Type: models.ChatTypePrivate, FirstName: u.FirstName, Username: u.Username})
}

// Group creates a basic group.
func (s *Server) Group(id int64, title string) models.Chat {
	return s.AddChat(models.Chat{ID: id, Type: models.ChatTypeGroup, Title: title})
}

// Supergroup creates a supergroup.
func (s *Server) Supergroup(id int64, title string) models.Chat {
	return s.AddChat(models.Chat{ID: id, Type: models.ChatTypeSupergroup, Title: title})
}

// Forum creates a supergroup with topics.
func (s *Server) Forum(id int64, title string) models.Chat {
	return s.AddChat(models.Chat{ID: id, Type: models.ChatTypeSupergroup, Title: title, IsForum: true})
}

// AddChat adds a chat unless it exists, and returns it.
func (s *Server) AddChat(c models.Chat) models.Chat {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.chats[c.ID]; ok {
		return known.Chat
	}
	first := 0
	if c.Type == models.ChatTypeSupergroup {
		first = 1 // the message about the creation of the supergroup
	}
	s.chats[c.ID] = &chat{
		lastID:    first,
		Chat:      c,
		messages:  map[int]*models.Message{},
		topics:    map[int]string{},
		reactions: map[int][]models.ReactionType{},
	}
	return c
}

// chatLocked returns the chat of a call, or why the bot cannot write to it.
func (s *Server) chatLocked(req *request) (*chat, *apiError) {
	c, ok := s.chats[req.int("chat_id")]
	switch {
	case !ok:
		return nil, badRequest("chat not found")
	case c.migratedTo != 0:
		e := badRequest("group chat was upgraded to a supergroup chat")
		e.migrateTo = c.migratedTo
		return nil, e
	case c.refuses != "":
		return nil, errf(http.StatusForbidden, "Forbidden: %s", c.refuses)
	}
	return c, nil
}

func (s *Server) setMyCommands(req *request) (any, *apiError) {
	var commands []models.BotCommand
	if err := req.decode("commands", &commands); err != nil {
		return nil, err
	}
	s.recordLocked(req, nil)
	return true, nil
}

// Reactions returns the bot's reactions to a message.
func (s *Server) Reactions(chatID int64, messageID int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	if c, ok := s.chats[chatID]; ok {
		for _, r := range c.reactions[messageID] {
			if r.ReactionTypeEmoji != nil {
				out = append(out, r.ReactionTypeEmoji.Emoji)
			}
		}
	}
	return out
}
