package demo

import (
	"encoding/json"
	"fmt"
	"time"

	"hubbub/peers/tg/tgtest"
)

// A Line is something that is visible in a chat.
type Line struct {
	N       int       `json:"n"` // position in the feed, starting at 1
	At      time.Time `json:"at"`
	ChatID  int64     `json:"chatId"`
	Author  string    `json:"author"`
	Bot     bool      `json:"bot,omitempty"` // from an agent
	Text    string    `json:"text"`
	Message int       `json:"message,omitempty"` // ID of the message in its chat
	ReplyTo int       `json:"replyTo,omitempty"`
}

// lineOf returns the line that a call of the bridge makes visible. It returns false if there is
// none.
func lineOf(bot string, c tgtest.Call) (Line, bool) {
	l := Line{At: c.At, ChatID: c.ChatID, Author: bot, Bot: true}
	if c.Message != nil {
		l.Message, l.Text = c.Message.ID, c.Message.Text
		if c.Message.ReplyToMessage != nil {
			l.ReplyTo = c.Message.ReplyToMessage.ID
		}
	}
	switch c.Method {
	case "sendMessage":
		return l, true
	case "setMessageReaction":
		l.Message = int(c.Int("message_id"))
		var list []struct {
			Emoji string `json:"emoji"`
		}
		if err := json.Unmarshal(c.Params["reaction"], &list); err != nil || len(list) == 0 {
			return l, false
		}
		l.Text = fmt.Sprintf("reacts %s to message %d", list[0].Emoji, l.Message)
		return l, true
	default:
		return l, false
	}
}
