package tgtest

import (
	"net/http"
	"strings"
	"time"
)

// A Cut says whether and when the connection is cut instead of answered. The bot cannot know
// whether the call took effect.
type Cut int

// The ways to cut a connection.
const (
	CutNot     Cut = iota
	CutAfter       // the call took effect; the answer is lost
	CutUnheard     // the request was read; the call took no effect
)

// A Fault makes calls fail. Empty fields match every call and change nothing.
type Fault struct {
	Method string // only this method
	ChatID int64  // only calls with this chat_id
	Text   string // only calls whose text contains this
	Skip   int    // number of matching calls to let pass first
	Times  int    // how often; 0 means once, a negative number always

	Delay       time.Duration // before anything else
	Hold        <-chan struct{}
	Cut         Cut
	Status      int    // an error answer with this status; the call has no effect
	Description string // default the status' text
	RetryAfter  int    // seconds
	MigrateTo   int64
}

// Fail adds a fault. Faults apply in the order in which they were added, one to a call.
func (s *Server) Fail(f Fault) {
	if f.Times == 0 {
		f.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Heal removes every fault.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

func (s *Server) takeFault(req *request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if f.Times == 0 || !f.matches(req) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		hit := *f
		return &hit
	}
	return nil
}

func (f *Fault) matches(req *request) bool {
	return (f.Method == "" || strings.EqualFold(f.Method, req.method)) &&
		(f.ChatID == 0 || req.int("chat_id") == f.ChatID) &&
		(f.Text == "" || strings.Contains(req.str("text"), f.Text))
}

// delay waits as long as the fault says. It reports false if the bot has left by then.
func (f *Fault) delay(req *request) bool {
	var held <-chan time.Time
	if f.Delay > 0 {
		held = time.After(f.Delay)
		select {
		case <-held:
		case <-req.Context().Done():
			return false
		}
	}
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-req.Context().Done():
			return false
		}
	}
	return true
}

func (f *Fault) asError() *apiError {
	description := f.Description
	if description == "" {
		description = http.StatusText(f.Status)
	}
	return &apiError{status: f.Status, description: description, retryAfter: f.RetryAfter, migrateTo: f.MigrateTo}
}
