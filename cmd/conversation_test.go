package cmd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hubbub/activitylog"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A outcomeCounts counts questions and what became of their answers.
type outcomeCounts struct{ asked, lost, unknown, duplicated, reordered int }

func (y outcomeCounts) String() string {
	return fmt.Sprintf("sent %d   received %d   lost %d   doubled %d   out of order %d   unknown %d",
		y.asked, y.asked-y.lost-y.unknown, y.lost, y.duplicated, y.reordered, y.unknown)
}

// A conversation is one chat in which somebody asks again and again, a few questions at
// once, and waits for all answers.
type conversation struct {
	outcomeCounts
	chat    models.Chat
	user    models.User
	slowest questionRound
	notes   []string
}

func (s *fixture) newConversation(name string) *conversation {
	user := s.api.User(name)
	return &conversation{chat: s.api.DM(user), user: user}
}

// burst is how many questions are asked at once.
const burst = 3

// run asks until ctx ends, and then waits for what is open.
func (k *conversation) run(ctx context.Context, s *fixture, patience, pause time.Duration) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for ctx.Err() == nil {
		k.round(context.WithoutCancel(ctx), s, patience)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// round asks one burst, and waits until every question is answered or its answer
// reported as unknown, which is not sent again.
func (k *conversation) round(ctx context.Context, s *fixture, patience time.Duration) {
	first := k.asked
	k.ask(s, burst)
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for waits := true; waits && ctx.Err() == nil; { // what is missing in the end is counted
		look, stop := context.WithTimeout(ctx, time.Second) // reports are in the log, which tells nobody of news
		_ = s.api.Await(look, func(*tgtest.Server) bool { return len(k.open(s, first)) == 0 })
		stop()
		waits = k.isWaiting(s, first, began)
	}
	k.slowest = slowest(k.slowest, questionRound{k.chat, began, time.Since(began)})
}

// isWaiting reports whether a question from the given one on, asked since began, may
// still be answered.
func (k *conversation) isWaiting(s *fixture, first int, began time.Time) bool {
	open := k.open(s, first)
	if len(open) == 0 {
		return false
	}
	unknown := s.unknownSince(began)
	return slices.ContainsFunc(open, func(q string) bool { return !unknown.holds(q) })
}

// ask asks the next n questions.
func (k *conversation) ask(s *fixture, n int) {
	for range n {
		s.api.Say(k.chat, k.user, k.question(k.asked))
		k.asked++
	}
}

func (k *conversation) question(i int) string { return fmt.Sprintf("<%d-%d>?", k.chat.ID, i) }

// open returns the questions from the given one on that have no answer yet.
func (k *conversation) open(s *fixture, first int) []string {
	all := strings.Join(s.api.Texts(k.chat.ID), "\n")
	var open []string
	for i := first; i < k.asked; i++ {
		if q := k.question(i); !strings.Contains(all, q) {
			open = append(open, q)
		}
	}
	return open
}

// check counts what went wrong, over everything that the chat was told.
func (k *conversation) check(s *fixture) {
	all := strings.Join(s.api.Texts(k.chat.ID), "\n")
	last := -1
	for i := range k.asked {
		q := k.question(i)
		switch n := strings.Count(all, q); {
		case n == 0:
			k.lost++
			k.notes = append(k.notes, "lost "+q)
			continue
		case n > 1:
			k.duplicated++
			k.notes = append(k.notes, fmt.Sprintf("%d times %s", n, q))
		}
		at := strings.Index(all, q)
		if at < last {
			k.reordered++
			k.notes = append(k.notes, "out of order "+q)
		}
		last = at
	}
}

// excuse takes from what was lost the questions whose answer the bridge reports
// as unknown. Such an answer is not sent again, as the README promises, and so it
// may be missing.
func (k *conversation) excuse(unknown unknowns) {
	k.notes = slices.DeleteFunc(k.notes, func(note string) bool {
		q, lost := strings.CutPrefix(note, "lost ")
		if !lost || !unknown.holds(q) {
			return false
		}
		k.lost--
		k.unknown++
		return true
	})
}

// unknowns are the answers whose outcome is reported as unknown, by their text,
// with the reason.
type unknowns map[string]string

func (u unknowns) holds(question string) bool {
	for text := range u {
		if strings.Contains(text, question) {
			return true
		}
	}
	return false
}

// unknownAnswers reads in the log which answers are unknown.
func (s *fixture) unknownAnswers() unknowns { return s.unknownSince(time.Time{}) }

// unknownSince reads in the log which of the answers since some time are unknown.
func (s *fixture) unknownSince(from time.Time) unknowns {
	texts, unknown := map[protocol.MessageID]string{}, unknowns{}
	types := []protocol.MessageType{protocol.TypeTGReply, protocol.TypeDeliveryStatus}
	for _, p := range s.publicationsOf(activitylog.Filter{Types: types, Since: from}) {
		switch p.message.Type {
		case protocol.TypeTGReply:
			texts[p.message.MessageID] = contentOf[protocol.ChatReply](p).Text
		case protocol.TypeDeliveryStatus:
			if d := contentOf[protocol.DeliveryStatus](p); d.Status == protocol.StatusUnknown {
				unknown[texts[d.MessageID]] = d.Reason
			}
		}
	}
	return unknown
}

// tenChats starts a conversation in each of ten new chats. The channel gives them
// when ctx has ended and every conversation with it.
func (s *fixture) tenChats(ctx context.Context, pause time.Duration) <-chan []*conversation {
	list := make([]*conversation, 10)
	var talking sync.WaitGroup
	for i := range list {
		list[i] = s.newConversation(fmt.Sprintf("talker %d", i))
		talking.Go(func() { list[i].run(ctx, s, patience, pause) })
	}
	done := make(chan []*conversation, 1)
	go func() {
		talking.Wait()
		unknown := s.unknownAnswers()
		for _, k := range list {
			k.check(s)
			k.excuse(unknown)
		}
		done <- list
	}()
	return done
}

// checkAll adds everything up and says what went wrong.
func checkAll(list []*conversation) (sum conversation, err error) {
	var notes []string
	for _, k := range list {
		sum.asked += k.asked
		sum.lost += k.lost
		sum.unknown += k.unknown
		sum.duplicated += k.duplicated
		sum.reordered += k.reordered
		sum.slowest = slowest(sum.slowest, k.slowest)
		notes = append(notes, k.notes...)
	}
	if len(notes) > 0 {
		err = errors.New(strings.Join(notes, "; "))
	}
	return sum, err
}
