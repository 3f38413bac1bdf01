package tgtest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"hubbub/protocol/defaults"
	"hubbub/protocol/notify"

	"github.com/go-telegram/bot/models"
)

// DefaultToken is the default of Options.Token.
const DefaultToken = "123456:AAtest-token_for-the-bundled-server"

// Options are the optional settings of a Server. Nil is valid.
type Options struct {
	Token         string           // default DefaultToken; the number before the colon is the bot's ID
	Username      string           `default:"hubbub_bot"` // of the bot
	PrivacyMode   bool             // in groups the bot sees only commands, mentions and replies
	FirstUpdateID int64            `positive:"1000"`
	Now           func() time.Time // default time.Now
	OnCall        func(Call)       // called for each call that took effect; it must not block
}

// A Server plays the role of Telegram for one bot.
type Server struct {
	token   string
	bot     models.User
	privacy bool
	now     func() time.Time
	onCall  func(Call)

	mu       sync.Mutex
	changed  notify.Broadcast // after every change
	pending  []queued         // updates that the bot has not confirmed
	nextID   int64            // of the next update
	polls    int              // number of getUpdates calls; the newest one wins
	allowed  []string         // the kinds of updates that the bot requested; empty for the default
	webhook  webhook
	chats    map[int64]*chat
	nextUser int64
	files    map[string]*file
	calls    []Call
	faults   []*Fault
	answered map[string]bool // by callback query
}

// New returns a server without chats and updates.
func New(opts *Options) *Server {
	o := defaults.Of(opts)
	defaults.Set(&o.Token, DefaultToken)
	defaults.Set(&o.Now, time.Now)
	prefix, _, _ := strings.Cut(o.Token, ":")
	id, err := strconv.ParseInt(prefix, 10, 64)
	if err != nil {
		id = 4242 // a token of another server may have any form
	}
	return &Server{
		token:   o.Token,
		privacy: o.PrivacyMode,
		now:     o.Now,
		onCall:  o.OnCall,
		bot: models.User{
			ID: id, IsBot: true, FirstName: "Hubbub", Username: o.Username,
			CanJoinGroups: true, CanReadAllGroupMessages: !o.PrivacyMode,
		},
		nextID:   o.FirstUpdateID,
		chats:    map[int64]*chat{},
		nextUser: 1000,
		files:    map[string]*file{},
		answered: map[string]bool{},
	}
}

// Token returns the bot token that the server expects.
func (s *Server) Token() string { return s.token }

// Bot returns the bot's account.
func (s *Server) Bot() models.User { return s.bot }

// A method implements a method of the Bot API. The caller holds mu.
type method func(*Server, *request) (any, *apiError)

// inChat returns the method that looks up the chat of a call and passes it to act.
func inChat(act func(*Server, *chat, *request) (any, *apiError)) method {
	return func(s *Server, req *request) (any, *apiError) {
		c, err := s.chatLocked(req)
		if err != nil {
			return nil, err
		}
		return act(s, c, req)
	}
}

var methods = map[string]method{
	"getMe":                (*Server).getMe,
	"getUpdates":           (*Server).getUpdates,
	"setWebhook":           (*Server).setWebhook,
	"deleteWebhook":        (*Server).deleteWebhook,
	"getWebhookInfo":       (*Server).getWebhookInfo,
	"sendMessage":          inChat((*Server).sendMessage),
	"sendPhoto":            inChat((*Server).sendPhoto),
	"sendDocument":         inChat((*Server).sendDocument),
	"editMessageText":      inChat((*Server).editMessageText),
	"setMessageReaction":   inChat((*Server).setMessageReaction),
	"sendChatAction":       inChat((*Server).sendChatAction),
	"sendMessageDraft":     inChat((*Server).sendMessageDraft),
	"sendRichMessage":      inChat((*Server).sendMessage),
	"sendRichMessageDraft": inChat((*Server).sendMessageDraft),
	"getFile":              (*Server).getFile,
	"answerCallbackQuery":  (*Server).answerCallbackQuery,
	"setMyCommands":        (*Server).setMyCommands,
}

// ServeHTTP serves /bot<token>/<method> and /file/bot<token>/<path>.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path, ok := strings.CutPrefix(r.URL.Path, "/file/bot"); ok {
		s.serveFile(w, r, path)
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/bot")
	token, name, ok2 := strings.Cut(path, "/")
	if !ok || !ok2 {
		writeError(w, errf(http.StatusNotFound, "Not Found"))
		return
	}
	if token != s.token {
		writeError(w, errf(http.StatusUnauthorized, "Unauthorized"))
		return
	}
	req, err := readRequest(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	req.method = canonical(name)
	act, known := methods[req.method]
	if !known {
		writeError(w, errf(http.StatusNotFound, "Not Found: method not found"))
		return
	}
	s.answer(w, req, act)
}

// answer applies a matching fault, or else the method.
func (s *Server) answer(w http.ResponseWriter, req *request, act method) {
	fault := s.takeFault(req)
	if fault != nil {
		if !fault.delay(req) {
			return
		}
		if fault.Cut == CutUnheard {
			cut()
		}
		if fault.Status != 0 {
			writeError(w, fault.asError())
			return
		}
	}
	s.mu.Lock()
	result, failure := act(s, req)
	s.mu.Unlock()
	if fault != nil && fault.Cut == CutAfter {
		cut()
	}
	if failure != nil {
		writeError(w, failure)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"ok": true, "result": result})
}

// cut ends the connection without an answer.
func cut() { panic(http.ErrAbortHandler) }

// canonical returns the usual spelling of a method's name, whose case the Bot API ignores.
func canonical(name string) string {
	for known := range methods {
		if strings.EqualFold(known, name) {
			return known
		}
	}
	return name
}

func writeError(w http.ResponseWriter, e *apiError) {
	body := map[string]any{"ok": false, "error_code": e.status, "description": e.description}
	parameters := map[string]any{}
	if e.retryAfter > 0 {
		parameters["retry_after"] = e.retryAfter
	}
	if e.migrateTo != 0 {
		parameters["migrate_to_chat_id"] = e.migrateTo
	}
	if len(parameters) > 0 {
		body["parameters"] = parameters
	}
	writeJSON(w, e.status, body)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		status, raw = http.StatusInternalServerError,
			[]byte(`{"ok":false,"error_code":500,"description":"Internal Server Error"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the client may have left
}

func (s *Server) getMe(*request) (any, *apiError) { return s.bot, nil }
