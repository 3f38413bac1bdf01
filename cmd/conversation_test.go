package cmd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hubbub/activitylog/read"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// outcomeCounts counts questions and the outcomes of their answers.
type outcomeCounts struct{ asked, lost, unknown, duplicated, reordered int }

func (y outcomeCounts) String() string {
	return fmt.Sprintf("sent %d   received %d   lost %d   doubled %d   out of order %d   unknown %d",
		y.asked, y.asked-y.lost-y.unknown, y.lost, y.duplicated, y.reordered, y.unknown)
}

// A conversation is a chat in which a user repeatedly asks a few questions at once and waits for
// the answers.
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

// run asks until ctx ends, and then waits for the open answers.
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

// round asks one burst. It waits until every question is answered or its answer is reported as
// unknown, which is not sent again.
func (k *conversation) round(ctx context.Context, s *fixture, patience time.Duration) {
	first := k.asked
	k.ask(s, burst)
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for waits := true; waits && ctx.Err() == nil; { // missing answers are counted later
		look, stop := context.WithTimeout(ctx, time.Second) // reports are in the log, which does not notify
		_ = s.api.Await(look, func(*tgtest.Server) bool { return len(k.open(s, first)) == 0 })
		stop()
		waits = k.isWaiting(s, first, began)
	}
	k.slowest = slowest(k.slowest, questionRound{k.chat, began, time.Since(began)})
}

// isWaiting reports whether one of the questions from first on, asked since began, may still be
// answered.
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

// open returns the unanswered questions, starting at index first.
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

// check counts what went wrong in the chat.
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

// excuse removes the questions whose answer the bridge reports as unknown from the lost ones.
// Such an answer is not sent again, as documented, and may be missing.
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

// unknowns are the answers reported as unknown, by text, with the reason.
type unknowns map[string]string

func (u unknowns) holds(question string) bool {
	for text := range u {
		if strings.Contains(text, question) {
			return true
		}
	}
	return false
}

// unknownAnswers returns the answers that the log reports as unknown.
func (s *fixture) unknownAnswers() unknowns { return s.unknownSince(time.Time{}) }

// unknownSince returns the answers since a time that the log reports as unknown.
func (s *fixture) unknownSince(from time.Time) unknowns {
	texts, unknown := map[protocol.MessageID]string{}, unknowns{}
	types := []protocol.MessageType{protocol.TypeTGReply, protocol.TypeDeliveryStatus}
	for _, p := range s.publicationsOf(read.Filter{Types: types, Since: from}) {
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

// tenChats starts a conversation in each of ten new chats. The channel returns them when ctx and
// all conversations have ended.
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

// checkAll adds up the counts and returns an error for what went wrong.
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
