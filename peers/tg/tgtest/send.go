package tgtest

import (
	"reflect"
	"slices"
	"strings"

	"github.com/go-telegram/bot/models"
)

const (
	maxText      = 4096 // UTF-16 units of a message
	maxEntities  = 100
	generalTopic = 1 // Telegram refuses this thread in sends
)

func (s *Server) sendMessage(c *chat, req *request) (any, *apiError) {
	text, entities, err := readText(req)
	if err != nil {
		return nil, err
	}
	m := &models.Message{Text: text, Entities: entities}
	if m.ReplyMarkup, err = readKeyboard(req); err != nil {
		return nil, err
	}
	return s.addLocked(c, req, m)
}

// addLocked adds a message from the bot to a chat, in the thread and with the quotation that the
// request names.
func (s *Server) addLocked(c *chat, req *request, m *models.Message) (any, *apiError) {
	bot := s.bot
	m.From, m.Chat, m.Date = &bot, c.Chat, int(s.now().Unix())
	if err := c.thread(req, m); err != nil {
		return nil, err
	}
	if err := c.quote(req, m); err != nil {
		return nil, err
	}
	c.lastID++
	m.ID = c.lastID
	c.messages[m.ID] = m
	s.recordLocked(req, m)
	return m, nil
}

// editMessageText edits a message from the bot. Without a new keyboard, the old one is removed.
func (s *Server) editMessageText(c *chat, req *request) (any, *apiError) {
	text, entities, err := readText(req)
	if err != nil {
		return nil, err
	}
	keyboard, err := readKeyboard(req)
	if err != nil {
		return nil, err
	}
	old, ok := c.messages[int(req.int("message_id"))]
	switch {
	case !ok:
		return nil, badRequest("message to edit not found")
	case old.From == nil || old.From.ID != s.bot.ID:
		return nil, badRequest("message can't be edited")
	case old.Text == text && reflect.DeepEqual(old.Entities, entities) && reflect.DeepEqual(old.ReplyMarkup, keyboard):
		return nil, badRequest("message is not modified: specified new message content and reply markup are exactly " +
			"the same")
	}
	changed := *old
	changed.Text, changed.Entities, changed.ReplyMarkup, changed.EditDate = text, entities, keyboard,
		int(s.now().Unix())
	c.messages[changed.ID] = &changed
	s.recordLocked(req, &changed)
	return &changed, nil
}

// maxCallbackData bounds the data of a button, in bytes.
const maxCallbackData = 64

// readKeyboard returns the buttons of a message, or nil.
func readKeyboard(req *request) (*models.InlineKeyboardMarkup, *apiError) {
	var k *models.InlineKeyboardMarkup
	if err := req.decode("reply_markup", &k); err != nil || k == nil {
		return nil, err
	}
	for _, b := range slices.Concat(k.InlineKeyboard...) {
		if b.Text == "" || b.CallbackData == "" || len(b.CallbackData) > maxCallbackData {
			return nil, badRequest("BUTTON_DATA_INVALID")
		}
	}
	return k, nil
}

// readText returns the text and entities of a call, or the text of its rich message.
func readText(req *request) (string, []models.MessageEntity, *apiError) {
	if req.params["rich_message"] != nil || strings.HasPrefix(req.method, "sendRich") {
		text, err := readRich(req)
		return text, nil, err
	}
	text := req.str("text")
	var entities []models.MessageEntity
	if err := req.decode("entities", &entities); err != nil {
		return "", nil, err
	}
	switch {
	case req.str("parse_mode") != "":
		return "", nil, badRequest("unsupported parse_mode") // the bridge sends entities
	case strings.TrimSpace(text) == "":
		return "", nil, badRequest("message text is empty")
	case units(text) > maxText:
		return "", nil, badRequest("message is too long")
	case len(entities) > maxEntities:
		entities = entities[:maxEntities]
	}
	for _, e := range entities {
		if e.Offset < 0 || e.Length <= 0 || e.Offset+e.Length > units(text) {
			return "", nil, badRequest("ENTITY_BOUNDS_INVALID")
		}
		if e.Type == models.MessageEntityTypeTextLink && e.URL == "" {
			return "", nil, badRequest("can't parse entities: a text_link needs a URL")
		}
	}
	return text, entities, nil
}

// thread assigns a message to its topic.
func (c *chat) thread(req *request, m *models.Message) *apiError {
	id := int(req.int("message_thread_id"))
	if id == 0 {
		return nil
	}
	if _, known := c.topics[id]; !known || id == generalTopic {
		return badRequest("message thread not found")
	}
	m.MessageThreadID, m.IsTopicMessage = id, true
	return nil
}

// quote makes a message a reply to another one.
func (c *chat) quote(req *request, m *models.Message) *apiError {
	var reply models.ReplyParameters
	if err := req.decode("reply_parameters", &reply); err != nil {
		return err
	}
	if reply.MessageID == 0 {
		return nil
	}
	quoted, ok := c.messages[reply.MessageID]
	switch {
	case ok:
		copied := *quoted
		copied.ReplyToMessage = nil
		m.ReplyToMessage = &copied
	case !reply.AllowSendingWithoutReply:
		return badRequest("message to be replied not found")
	}
	return nil
}

var actions = []string{
	"typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice",
	"upload_document", "choose_sticker", "find_location", "record_video_note", "upload_video_note",
}

func (s *Server) sendChatAction(c *chat, req *request) (any, *apiError) {
	if !slices.Contains(actions, req.str("action")) {
		return nil, badRequest("wrong parameter action in request")
	}
	if id := int(req.int("message_thread_id")); id != 0 && id != generalTopic {
		if _, ok := c.topics[id]; !ok {
			return nil, badRequest("message thread not found")
		}
	}
	s.recordLocked(req, nil)
	return true, nil
}

// sendMessageDraft shows a draft. Only direct chats have drafts.
func (s *Server) sendMessageDraft(c *chat, req *request) (any, *apiError) {
	switch _, _, err := readText(req); {
	case req.int("chat_id") < 0:
		return nil, badRequest("TEXTDRAFT_PEER_INVALID")
	case req.int("draft_id") == 0:
		return nil, badRequest("DRAFT_ID_INVALID")
	case err != nil:
		return nil, err
	}
	s.recordLocked(req, nil)
	return true, nil
}

func (s *Server) answerCallbackQuery(req *request) (any, *apiError) {
	id := req.str("callback_query_id")
	if id == "" || s.answered[id] {
		return nil, badRequest("query is too old and response timeout expired or query ID is invalid")
	}
	s.answered[id] = true
	s.recordLocked(req, nil)
	return true, nil
}
