package tgtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/go-telegram/bot/models"
)

// keepUpdates is how long Telegram keeps unconfirmed updates.
const keepUpdates = 24 * time.Hour

type queued struct {
	id  int64
	raw json.RawMessage
	at  time.Time
}

// optional are the kinds of updates that a bot must request by name.
var optional = []string{
	models.AllowedUpdateChatMember,
	models.AllowedUpdateMessageReaction,
	models.AllowedUpdateMessageReactionCount,
}

// setAllowedLocked applies allowed_updates to future updates.
func (s *Server) setAllowedLocked(req *request) *apiError {
	if _, given := req.params["allowed_updates"]; !given {
		return nil
	}
	s.allowed = nil
	return req.decode("allowed_updates", &s.allowed)
}

// allowsLocked reports whether the bot receives updates of a kind.
func (s *Server) allowsLocked(kind string) bool {
	if len(s.allowed) == 0 {
		return !slices.Contains(optional, kind)
	}
	return slices.Contains(s.allowed, kind)
}

// Inject queues an update with a new ID, which it returns. If the bot has not requested the kind
// of the update, the update is lost and Inject returns 0.
func (s *Server) Inject(u *models.Update) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.injectLocked(u)
}

func (s *Server) injectLocked(u *models.Update) int64 {
	u.ID = s.nextID
	raw, err := json.Marshal(u)
	if err != nil {
		panic("an update that cannot be marshalled: " + err.Error())
	}
	if !s.allowsLocked(kindOf(raw)) {
		return 0
	}
	s.nextID++
	s.queueLocked(u.ID, raw)
	return u.ID
}

// InjectRaw queues an update in JSON with the given ID. It is for repeated IDs, and for updates
// that the library's types cannot express. Later updates get higher IDs, as in Telegram: a lower one
// counts as confirmed with this update.
func (s *Server) InjectRaw(id int64, raw json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextID = max(s.nextID, id+1)
	s.queueLocked(id, raw)
}

func (s *Server) queueLocked(id int64, raw json.RawMessage) {
	s.pending = append(s.pending, queued{id: id, raw: raw, at: s.now()})
	s.changed.Notify()
}

// kindOf returns the kind of an update: the name of the member other than update_id.
func kindOf(raw json.RawMessage) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return ""
	}
	for name := range members {
		if name != "update_id" {
			return name
		}
	}
	return ""
}

// RestartUpdateIDs sets the ID of the next update. Telegram picks a random ID after a week
// without updates.
func (s *Server) RestartUpdateIDs(next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextID = next
}

// Pending returns the number of unconfirmed updates.
func (s *Server) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending)
}

func (s *Server) getUpdates(req *request) (any, *apiError) {
	if s.webhook.url != "" {
		return nil, errf(http.StatusConflict,
			"Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook "+
				"first")
	}
	if err := s.setAllowedLocked(req); err != nil {
		return nil, err
	}
	s.polls++
	mine := s.polls
	s.changed.Notify() // this replaces a poll in progress
	s.confirmLocked(req.int("offset"))
	limit := int(req.int("limit"))
	if limit < 1 || limit > 100 {
		limit = 100
	}
	deadline := time.After(time.Duration(min(max(req.int("timeout"), 0), 60)) * time.Second)
	for {
		s.expireLocked()
		if batch := s.batchLocked(req.int("offset"), limit); len(batch) > 0 || req.int("timeout") <= 0 {
			return batch, nil
		}
		changed := s.changed.C()
		s.mu.Unlock()
		var over bool
		select {
		case <-changed:
		case <-deadline:
			over = true
		case <-req.Context().Done():
			over = true
		}
		s.mu.Lock()
		switch {
		case s.polls != mine:
			return nil, errf(http.StatusConflict,
				"Conflict: terminated by other getUpdates request; make sure that only one bot instance is running")
		case over:
			return []json.RawMessage{}, nil
		}
	}
}

// confirmLocked drops the updates that an offset confirms.
func (s *Server) confirmLocked(offset int64) {
	switch {
	case offset > 0:
		s.pending = slices.DeleteFunc(s.pending, func(q queued) bool { return q.id < offset })
	case offset < 0 && int64(len(s.pending)) > -offset:
		s.pending = slices.Clone(s.pending[int64(len(s.pending))+offset:])
	}
}

func (s *Server) expireLocked() {
	s.pending = slices.DeleteFunc(s.pending, func(q queued) bool { return s.now().Sub(q.at) > keepUpdates })
}

// batchLocked returns at most limit updates. As in Telegram, an update that arrived below the
// offset while the poll waited counts as confirmed.
func (s *Server) batchLocked(offset int64, limit int) []json.RawMessage {
	s.confirmLocked(max(offset, 0))
	batch := []json.RawMessage{}
	for _, q := range s.pending[:min(limit, len(s.pending))] {
		batch = append(batch, q.raw)
	}
	return batch
}
