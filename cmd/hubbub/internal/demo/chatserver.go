package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"hubbub/peers/tg/tgtest"
	"hubbub/protocol/http1"

	"github.com/go-telegram/bot/models"
)

// BotName is the name by which the demo's group mentions the bot.
const BotName = "hubbub_bot"

// groupID is the ID of the demo's group. It is small so that it is easy to read.
const groupID = -1001

// A ChatServer stands in for Telegram in the demo. It is safe for concurrent use.
type ChatServer struct {
	API   *tgtest.Server
	Group models.Chat
	Will  models.User
	Ana   models.User
	You   models.User // the person at the keyboard

	key  string
	feed *feed
	mux  *http.ServeMux
}

// NewChatServer returns a server. Requests to its endpoint for people must present the key.
func NewChatServer(key string) *ChatServer {
	s := &ChatServer{
		API:  tgtest.New(&tgtest.Options{Username: BotName}),
		key:  key,
		feed: &feed{},
		mux:  http.NewServeMux(),
	}
	s.Will, s.Ana, s.You = s.API.User("Will"), s.API.User("Ana"), s.API.User("You")
	s.Group = s.API.Supergroup(groupID, "Launch crew")
	s.API.DM(s.You)
	s.mux.HandleFunc("POST "+sayPath, s.requireKey(s.serveSay))
	s.mux.HandleFunc("GET "+linesPath, s.requireKey(s.serveLines))
	s.mux.Handle("/", s.API)
	return s
}

// Say writes a message into a chat as a user.
func (s *ChatServer) Say(c models.Chat, from models.User, text string) Line {
	m := s.API.Say(c, from, text)
	return s.feed.add(Line{At: time.Now(), ChatID: c.ID, Author: from.FirstName, Text: text, Message: m.ID})
}

// React reacts to a message as a user.
func (s *ChatServer) React(to Line, from models.User, emoji string) Line {
	s.API.React(models.Chat{ID: to.ChatID}, from, to.Message, nil, emoji)
	return s.feed.add(Line{
		At:      time.Now(),
		ChatID:  to.ChatID,
		Author:  from.FirstName,
		Text:    fmt.Sprintf("reacts %s to message %d", emoji, to.Message),
		Message: to.Message,
	})
}

// Run serves the Bot API and the endpoint for people on l until ctx ends, and then closes l.
func (s *ChatServer) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // long polls end with ctx
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { s.recordCalls(ctx) })
	if err := http1.Serve(ctx, l, server, 0); err != nil { // nobody waits for a response any more
		return fmt.Errorf("serving the demo's Bot API: %w", err)
	}
	return nil
}

// recordCalls adds the calls of the bridge to the feed.
func (s *ChatServer) recordCalls(ctx context.Context) {
	seen := 0
	for {
		more := func(api *tgtest.Server) bool { return len(api.Calls()) > seen }
		if s.API.Await(ctx, more) != nil {
			return
		}
		calls := s.API.Calls()
		for _, c := range calls[seen:] {
			if l, visible := lineOf("Hubbub", c); visible {
				s.feed.add(l)
			}
		}
		seen = len(calls)
	}
}

// ServeHTTP serves the bridge, and people at /people/.
func (s *ChatServer) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// chat returns the chat into which a person writes.
func (s *ChatServer) chat(group bool) models.Chat {
	if group {
		return s.Group
	}
	return s.API.DM(s.You)
}
