package mx_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hubbub/protocol/notify"
)

// A roomEvent is an event of a room.
type roomEvent struct {
	ID      string         `json:"event_id"`
	Type    string         `json:"type"`
	Sender  string         `json:"sender"`
	Key     *string        `json:"state_key,omitempty"`
	Time    int64          `json:"origin_server_ts"`
	Redacts string         `json:"redacts,omitempty"`
	Content map[string]any `json:"content"`

	room string
	at   int // position in the stream
}

// A homeserver is one in memory. It has one bot, with the password "password", and people, whose
// clients are its methods. It speaks the part of the client-server API that the bridge uses. Like a
// real server after a restart, it does not know transaction IDs, unless Remember is set.
type homeserver struct {
	bot string

	mu       sync.Mutex
	Remember bool // transaction IDs
	events   []*roomEvent
	invites  map[string]int // position of the bot's invitation, by room
	joined   map[string]int
	txns     map[string]string
	limited  int           // requests to answer with M_LIMIT_EXCEEDED
	pause    time.Duration // that these demand
	tokens   map[string]bool
	logins   int
	refused  string           // type of the bot's next event to answer with M_FORBIDDEN
	lost     string           // type of the bot's next event whose answer is lost
	requests []string         // all but syncs
	changed  notify.Broadcast // an event or request came
}

// newHomeserver returns a homeserver with a bot.
func newHomeserver(bot string) *homeserver {
	return &homeserver{bot: bot, invites: map[string]int{}, joined: map[string]int{}, txns: map[string]string{},
		tokens: map[string]bool{}}
}

// add appends an event. s.mu is held.
func (s *homeserver) add(e *roomEvent) *roomEvent {
	e.at = len(s.events) + 1
	e.ID = fmt.Sprintf("$e%d", e.at)
	e.Time = time.Now().UnixMilli()
	s.events = append(s.events, e)
	s.changed.Notify()
	return e
}

func (s *homeserver) state(room, sender, kind, key string, content map[string]any) *roomEvent {
	return s.add(&roomEvent{Type: kind, Sender: sender, Key: &key, Content: content, room: room})
}

// Room makes a room to which its first user invites the bot, and which the others have joined.
func (s *homeserver) Room(users ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := fmt.Sprintf("!r%d:hs", len(s.events))
	for _, user := range users {
		s.state(room, user, "m.room.member", user, map[string]any{"membership": "join"})
	}
	s.invites[room] = s.state(room, users[0], "m.room.member", s.bot, map[string]any{"membership": "invite"}).at
	return room
}

// Invite makes a room, with the content of its m.room.create, and invites the bot to it as its only user.
func (s *homeserver) Invite(room, user string, made map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state(room, user, "m.room.create", "", made)
	s.state(room, user, "m.room.member", user, map[string]any{"membership": "join"})
	s.invites[room] = s.state(room, user, "m.room.member", s.bot, map[string]any{"membership": "invite"}).at
}

// Send sends an event as a user and returns its ID.
func (s *homeserver) Send(room, user, kind string, content map[string]any) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(&roomEvent{Type: kind, Sender: user, Content: content, room: room}).ID
}

// Say writes a text as a user.
func (s *homeserver) Say(room, user, text string) string {
	return s.Send(room, user, "m.room.message", map[string]any{"msgtype": "m.text", "body": text})
}

// SetState sets a state of a room as a user.
func (s *homeserver) SetState(room, user, kind string, content map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state(room, user, kind, "", content)
}

// Member sets the membership of a user.
func (s *homeserver) Member(room, user string, content map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state(room, user, "m.room.member", user, content)
}

// Limit answers the next n requests from the bot, except syncs, with M_LIMIT_EXCEEDED.
func (s *homeserver) Limit(n int, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limited, s.pause = n, pause
}

// Expire makes the homeserver forget the bot's tokens.
func (s *homeserver) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
	s.changed.Notify()
}

// Refuse answers the bot's next event of a type with M_FORBIDDEN.
func (s *homeserver) Refuse(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = kind
}

// Lose accepts the bot's next event of a type, and answers that it is unavailable.
func (s *homeserver) Lose(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = kind
}

// Sent returns the bot's events of a type in a room.
func (s *homeserver) Sent(room, kind string) (list []roomEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.room == room && e.Sender == s.bot && e.Type == kind {
			list = append(list, *e)
		}
	}
	return list
}

// Texts returns what the bot said in a room.
func (s *homeserver) Texts(room string) (list []string) {
	for _, e := range s.Sent(room, "m.room.message") {
		body, _ := e.Content["body"].(string)
		list = append(list, body)
	}
	return list
}

// Asked reports whether the bot has made a request, such as "POST v3/join/!room:hs".
func (s *homeserver) Asked(request string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.requests, request)
}

// Changed returns a channel that is closed at the next event or request.
func (s *homeserver) Changed() <-chan struct{} { return s.changed.C() }

// RoundTrip answers a request without a network.
func (s *homeserver) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// ServeHTTP serves the client-server API.
func (s *homeserver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/_matrix/client/"), "/")
	var body map[string]any
	if r.Body != nil && r.Method != http.MethodGet {
		_ = json.NewDecoder(r.Body).Decode(&body) // an empty body stays nil
	}
	if len(path) == 2 && path[1] == "sync" {
		s.sync(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+strings.Join(path, "/"))
	s.changed.Notify()
	if s.limited > 0 && path[1] != "login" {
		s.limited--
		answer(w, http.StatusTooManyRequests, map[string]any{"errcode": "M_LIMIT_EXCEEDED", "error": "wait", "retry_after_ms": s.pause.Milliseconds()})
		return
	}
	if path[1] != "login" && !s.accepts(w, r) {
		return
	}
	switch {
	case path[1] == "login":
		if body["password"] != "password" {
			answer(w, http.StatusForbidden, map[string]any{"errcode": "M_FORBIDDEN", "error": "wrong password"})
			return
		}
		s.logins++
		token := fmt.Sprintf("token%d", s.logins)
		s.tokens["Bearer "+token] = true
		answer(w, http.StatusOK, map[string]any{"user_id": s.bot, "access_token": token, "device_id": body["device_id"]})
	case path[1] == "account":
		answer(w, http.StatusOK, map[string]any{"user_id": s.bot, "device_id": "DEV"})
	case path[1] == "join" && s.invites[path[2]] == 0:
		answer(w, http.StatusForbidden, map[string]any{"errcode": "M_FORBIDDEN", "error": "not invited"})
	case path[1] == "join":
		s.state(path[2], s.bot, "m.room.member", s.bot, map[string]any{"membership": "join"})
		s.joined[path[2]] = len(s.events)
		answer(w, http.StatusOK, map[string]any{"room_id": path[2]})
	case path[1] == "rooms" && len(path) > 3:
		s.room(w, r, path[2], path[3:], body)
	default:
		answer(w, http.StatusNotFound, map[string]any{"errcode": "M_UNRECOGNIZED", "error": r.URL.Path})
	}
}

// accepts reports whether a request has a valid token, or refuses it. s.mu is held.
func (s *homeserver) accepts(w http.ResponseWriter, r *http.Request) bool {
	known := s.tokens[r.Header.Get("Authorization")]
	if !known {
		answer(w, http.StatusUnauthorized, map[string]any{"errcode": "M_UNKNOWN_TOKEN", "error": "expired", "soft_logout": true})
	}
	return known
}

// room serves what concerns a room. s.mu is held.
func (s *homeserver) room(w http.ResponseWriter, r *http.Request, room string, rest []string, body map[string]any) {
	switch rest[0] {
	case "send", "redact":
		if s.joined[room] == 0 || rest[1] == s.refused {
			s.refused = ""
			answer(w, http.StatusForbidden, map[string]any{"errcode": "M_FORBIDDEN", "error": "not in the room, or refused"})
			return
		}
		txn := r.URL.Path
		if id := s.txns[txn]; id != "" && s.Remember {
			answer(w, http.StatusOK, map[string]any{"event_id": id})
			return
		}
		e := &roomEvent{Type: rest[1], Sender: s.bot, Content: body, room: room}
		if rest[0] == "redact" {
			e.Type, e.Redacts = "m.room.redaction", rest[1]
		}
		s.txns[txn] = s.add(e).ID
		if rest[1] == s.lost {
			s.lost = ""
			answer(w, http.StatusBadGateway, map[string]any{})
			return
		}
		answer(w, http.StatusOK, map[string]any{"event_id": e.ID})
	case "leave":
		s.state(room, s.bot, "m.room.member", s.bot, map[string]any{"membership": "leave"})
		delete(s.invites, room)
		delete(s.joined, room)
		answer(w, http.StatusOK, map[string]any{})
	case "messages":
		var chunk []*roomEvent
		for _, e := range slices.Backward(s.events) {
			if e.room == room {
				chunk = append(chunk, e)
			}
		}
		answer(w, http.StatusOK, map[string]any{"chunk": chunk})
	default: // typing, receipts
		answer(w, http.StatusOK, map[string]any{})
	}
}

// sync serves events from a position on. It waits for one until the timeout.
func (s *homeserver) sync(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.Atoi(r.URL.Query().Get("since"))
	wait, _ := strconv.Atoi(r.URL.Query().Get("timeout"))
	end := time.After(time.Duration(wait) * time.Millisecond)
	for {
		s.mu.Lock()
		if !s.accepts(w, r) {
			s.mu.Unlock()
			return
		}
		result, found := s.since(since)
		changed := s.changed.C()
		s.mu.Unlock()
		if found || wait == 0 {
			answer(w, http.StatusOK, result)
			return
		}
		select {
		case <-changed:
		case <-end:
			wait = 0
		case <-r.Context().Done():
			return
		}
	}
}

// since returns what the bot sees after a position, and whether there is anything. s.mu is held.
func (s *homeserver) since(since int) (result map[string]any, found bool) {
	join, invite := map[string]any{}, map[string]any{}
	for _, e := range s.events {
		at := s.joined[e.room]
		switch {
		case at > 0 && (e.at > since || at > since):
			room, known := join[e.room].(map[string]any)
			if !known {
				room = map[string]any{"timeline": map[string]any{"events": []*roomEvent{}}}
				join[e.room] = room
			}
			timeline := room["timeline"].(map[string]any) //nolint:errcheck // as made above
			timeline["events"] = append(timeline["events"].([]*roomEvent), e)
		case at == 0 && s.invites[e.room] > since && e.at == s.invites[e.room]:
			invite[e.room] = map[string]any{"invite_state": map[string]any{"events": []*roomEvent{e}}}
		}
	}
	return map[string]any{
		"next_batch": strconv.Itoa(len(s.events)), "rooms": map[string]any{"join": join, "invite": invite},
	}, len(join)+len(invite) > 0
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may have left
}
