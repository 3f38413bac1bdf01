package tgtest

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"
)

// A Call is one call of the bot that took effect.
type Call struct {
	Method  string
	ChatID  int64
	Params  map[string]json.RawMessage
	Message *models.Message // the message that it sent or edited; nil for other methods
	At      time.Time
}

// Text returns the text parameter of the call, or the text of its rich message.
func (c Call) Text() string {
	var text string
	if json.Unmarshal(c.Params["text"], &text) != nil {
		text = richText(c.Params)
	}
	return text
}

// Int returns a parameter as an integer, or 0.
func (c Call) Int(name string) int64 {
	n, _ := strconv.ParseInt(strings.Trim(string(c.Params[name]), `"`), 10, 64)
	return n
}

func (s *Server) recordLocked(req *request, sent *models.Message) {
	c := Call{
		Method: req.method, ChatID: req.int("chat_id"), Params: maps.Clone(req.params), Message: sent, At: s.now(),
	}
	s.calls = append(s.calls, c)
	if s.onCall != nil {
		s.onCall(c)
	}
	s.changed.Notify()
}

// Calls returns the bot's calls of the given methods, or of all methods, in order.
func (s *Server) Calls(methods ...string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callsLocked(methods)
}

func (s *Server) callsLocked(methods []string) []Call {
	var out []Call
	for _, c := range s.calls {
		if len(methods) == 0 || slices.Contains(methods, c.Method) {
			out = append(out, c)
		}
	}
	return out
}

// Texts returns the texts that the bot sent to a chat, in order.
func (s *Server) Texts(chatID int64) []string {
	var out []string
	for _, c := range s.Calls("sendMessage", "sendRichMessage") {
		if c.Message != nil && c.Message.Chat.ID == chatID {
			out = append(out, c.Message.Text)
		}
	}
	return out
}

// Messages returns the bot's messages in a chat in their current form, in order.
func (s *Server) Messages(chatID int64) []*models.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*models.Message
	if c := s.chats[chatID]; c != nil {
		for _, id := range slices.Sorted(maps.Keys(c.messages)) {
			if m := c.messages[id]; m.From != nil && m.From.ID == s.bot.ID {
				out = append(out, m)
			}
		}
	}
	return out
}

// Await waits until the condition holds or ctx ends. It checks the condition after every change.
// The condition may call methods of the Server.
func (s *Server) Await(ctx context.Context, condition func(*Server) bool) error {
	for {
		changed := s.changed.C()
		if condition(s) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
