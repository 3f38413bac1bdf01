package cmd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A talk is one chat in which somebody asks again and again, a few questions at
// once, and waits for all answers.
type talk struct {
	chat models.Chat
	user models.User
	next int // number of the next question

	asked, lost, unknown, doubled, disordered int
	slowest                                   time.Duration
	notes                                     []string
}

// burst is how many questions are asked at once.
const burst = 3

// run asks until ctx ends, and then waits for what is open.
func (k *talk) run(ctx context.Context, s *system, patience, pause time.Duration) {
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

// round asks one burst.
func (k *talk) round(ctx context.Context, s *system, patience time.Duration) {
	first := k.next
	k.next += burst
	k.asked += burst
	for i := first; i < k.next; i++ {
		s.api.Say(k.chat, k.user, k.question(i))
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = s.api.Await(ctx, func(api *tgtest.Server) bool { // what is missing after it is counted
		all := strings.Join(api.Texts(k.chat.ID), "\n")
		for i := first; i < k.next; i++ {
			if !strings.Contains(all, k.question(i)) {
				return false
			}
		}
		return true
	})
	k.slowest = max(k.slowest, time.Since(began))
}

func (k *talk) question(i int) string { return fmt.Sprintf("<%d-%d>?", k.chat.ID, i) }

// judge counts what went wrong, over everything that the chat was told.
func (k *talk) judge(s *system) {
	all := strings.Join(s.api.Texts(k.chat.ID), "\n")
	last := -1
	for i := range k.next {
		q := k.question(i)
		switch n := strings.Count(all, q); {
		case n == 0:
			k.lost++
			k.notes = append(k.notes, "lost "+q)
			continue
		case n > 1:
			k.doubled++
			k.notes = append(k.notes, fmt.Sprintf("%d times %s", n, q))
		}
		at := strings.Index(all, q)
		if at < last {
			k.disordered++
			k.notes = append(k.notes, "out of order "+q)
		}
		last = at
	}
}

// excuse takes from what was lost the questions whose answer the bridge reports
// as unknown: a kill fell between the call to Telegram and its answer. Such an
// answer is not sent again, as the README promises, and so it may be missing.
func (k *talk) excuse(unknown string) {
	k.notes = slices.DeleteFunc(k.notes, func(note string) bool {
		q, lost := strings.CutPrefix(note, "lost ")
		if !lost || !strings.Contains(unknown, q) {
			return false
		}
		k.lost--
		k.unknown++
		return true
	})
}

// unknownAnswers returns the texts of the answers that are reported as unknown.
func (s *system) unknownAnswers() string {
	texts := map[protocol.MessageID]string{}
	var unknown strings.Builder
	for _, p := range s.passes() {
		switch p.message.Type {
		case protocol.TypeTGReply:
			texts[p.message.MessageID] = contentOf[protocol.ChatReply](p).Text
		case protocol.TypeDeliveryStatus:
			if d := contentOf[protocol.DeliveryStatus](p); d.Status == protocol.StatusUnknown {
				unknown.WriteString(texts[d.MessageID] + "\n")
			}
		}
	}
	return unknown.String()
}

// talks starts a conversation in n new chats and returns when ctx has ended and
// every conversation with it.
func (s *system) talks(ctx context.Context, n int, patience, pause time.Duration) []*talk {
	list := make([]*talk, n)
	var wg sync.WaitGroup
	for i := range list {
		user := s.api.User(fmt.Sprintf("talker %d", i))
		list[i] = &talk{chat: s.api.DM(user), user: user}
		wg.Go(func() { list[i].run(ctx, s, patience, pause) })
	}
	wg.Wait()
	unknown := s.unknownAnswers()
	for _, k := range list {
		k.judge(s)
		k.excuse(unknown)
	}
	return list
}

// verdict adds everything up and says what went wrong.
func verdict(list []*talk) (sum talk, err error) {
	var notes []string
	for _, k := range list {
		sum.asked += k.asked
		sum.lost += k.lost
		sum.unknown += k.unknown
		sum.doubled += k.doubled
		sum.disordered += k.disordered
		sum.slowest = max(sum.slowest, k.slowest)
		notes = append(notes, k.notes...)
	}
	if len(notes) > 0 {
		err = errors.New(strings.Join(notes, "; "))
	}
	return sum, err
}
