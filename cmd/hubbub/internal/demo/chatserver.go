package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"hubbub/peers/tg/tgtest"

	"github.com/go-telegram/bot/models"
)

// BotName is how the bot is mentioned in the demo's group.
const BotName = "hubbub_bot"

// groupID is the demo's group. Small, so that one can read it.
const groupID = -1001

// A ChatServer is the Telegram of the demo. Its methods may be called from any
// goroutine.
type ChatServer struct {
	API   *tgtest.Server
	Group models.Chat
	Will  models.User
	Ana   models.User
	You   models.User // whoever types

	key  string
	feed *feed
	mux  *http.ServeMux
}

// NewChatServer makes a stage whose endpoint for people wants the given key.
func NewChatServer(key string) *ChatServer {
	s := &ChatServer{API: tgtest.New(&tgtest.Options{Username: BotName}), key: key, feed: newFeed(), mux: http.NewServeMux()}
	s.Will, s.Ana, s.You = s.API.User("Will"), s.API.User("Ana"), s.API.User("You")
	s.Group = s.API.Supergroup(groupID, "Launch crew")
	s.API.DM(s.You)
	s.mux.HandleFunc("POST "+sayPath, s.requireKey(s.serveSay))
	s.mux.HandleFunc("GET "+linesPath, s.requireKey(s.serveLines))
	s.mux.Handle("/", s.API)
	return s
}

// Say is somebody writing into a chat.
func (s *ChatServer) Say(c models.Chat, from models.User, text string) Line {
	m := s.API.Say(c, from, text)
	return s.feed.add(Line{At: time.Now(), ChatID: c.ID, Author: from.FirstName, Text: text, Message: m.ID})
}

// React is somebody reacting to a message.
func (s *ChatServer) React(to Line, from models.User, emoji string) Line {
	s.API.React(models.Chat{ID: to.ChatID}, from, to.Message, nil, emoji)
	return s.feed.add(Line{At: time.Now(), ChatID: to.ChatID, Author: from.FirstName, Text: fmt.Sprintf("reacts %s to message %d", emoji, to.Message), Message: to.Message})
}

// Run serves the Bot API and the people's endpoint on l until ctx ends, and
// then closes l.
func (s *ChatServer) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // long polls end with it
	}
	var wg sync.WaitGroup
	wg.Go(func() { s.recordCalls(ctx) })
	wg.Go(func() {
		<-ctx.Done()
		_ = server.Close() // nobody needs an answer any more
	})
	err := server.Serve(l)
	stopped := ctx.Err() != nil
	cancel()
	wg.Wait()
	if stopped {
		return nil
	}
	return fmt.Errorf("serving the demo's Bot API: %w", err)
}

// recordCalls makes lines of what the bridge sends.
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

// ServeHTTP answers the bridge, and people at /people/.
func (s *ChatServer) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// chat returns the chat that a person writes into.
func (s *ChatServer) chat(group bool) models.Chat {
	if group {
		return s.Group
	}
	return s.API.DM(s.You)
}
