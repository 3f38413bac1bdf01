package demo

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The endpoint for people: POST /people/say writes a message; GET /people/lines?after=N waits for
// new lines.
const (
	sayPath   = "/people/say"
	linesPath = "/people/lines"
)

const (
	maxRequestBytes = 16 << 10         // bytes of one request
	pollTimeout     = 20 * time.Second // of one GET
)

// A typedMessage is a message that a person typed.
type typedMessage struct {
	Group bool   `json:"group"` // for the group instead of the direct chat
	Text  string `json:"text"`
}

// A linesPage has new lines and the number of the last one.
type linesPage struct {
	Lines []Line `json:"lines"`
	Last  int    `json:"last"`
}

// requireKey wraps a handler of the endpoint for people. It rejects requests without the key.
func (s *ChatServer) requireKey(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(key), []byte(s.key)) != 1 {
			http.Error(w, "the key of this demo is missing", http.StatusUnauthorized)
			return
		}
		serve(w, r)
	}
}

func (s *ChatServer) serveSay(w http.ResponseWriter, r *http.Request) {
	var t typedMessage
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBytes)).Decode(
		&t,
	); err != nil || strings.TrimSpace(t.Text) == "" {
		http.Error(w, "a message is {\"text\":\"...\",\"group\":false}", http.StatusBadRequest)
		return
	}
	writeJSON(w, s.Say(s.chat(t.Group), s.You, t.Text))
}

func (s *ChatServer) serveLines(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.Atoi(r.URL.Query().Get("after"))
	if err != nil {
		http.Error(w, "after must be the number of a line", http.StatusBadRequest)
		return
	}
	if after < 0 {
		after = s.feed.newest()
	}
	ctx, cancel := context.WithTimeout(r.Context(), pollTimeout)
	defer cancel()
	lines, err := s.feed.wait(ctx, after)
	if err != nil || len(lines) == 0 {
		writeJSON(w, linesPage{Last: after})
		return
	}
	writeJSON(w, linesPage{Lines: lines, Last: lines[len(lines)-1].N})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails if the client has gone
}

// An Address says how a person reaches a running demo. Only its owner can read the file that
// holds it.
type Address struct {
	URL  string `json:"url"`
	Key  string `json:"key"`
	Data string `json:"data"` // the data folder
}

// ErrNoDemo is returned if the demo has ended.
var ErrNoDemo = errors.New("the demo has ended: start one with `hubbub demo`")

// Say writes a message as the person at the keyboard. It returns the line that the demo shows.
func (a Address) Say(ctx context.Context, group bool, text string) (Line, error) {
	raw, err := json.Marshal(typedMessage{Group: group, Text: text})
	if err != nil {
		return Line{}, err
	}
	var l Line
	err = a.do(ctx, http.MethodPost, sayPath, raw, &l)
	return l, err
}

// Lines waits some seconds for lines after number n. It returns them and the number to pass next.
// With a negative n it waits for new lines.
func (a Address) Lines(ctx context.Context, n int) (lines []Line, last int, err error) {
	var p linesPage
	err = a.do(ctx, http.MethodGet, linesPath+"?after="+strconv.Itoa(n), nil, &p)
	return p.Lines, p.Last, err
}

func (a Address) do(ctx context.Context, method, path string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, a.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+a.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return ErrNoDemo
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the demo answered %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
