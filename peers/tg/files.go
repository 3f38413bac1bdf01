package tg

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"hubbub/peers/bridge"
	"hubbub/peers/markdown"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// newFileServer returns the server of the bot's files.
func (a *account) newFileServer() *bridge.FileServer {
	return &bridge.FileServer{
		Name: id(a.bot), Path: "/telegram-files/", Listen: a.opts.FilesListen, URL: a.opts.FilesURL, DB: a.db,
		Fetch: a.fetchFile, Log: a.log,
	}
}

// fetchFile fetches a file from Telegram; see [bridge.FileServer].
func (a *account) fetchFile(ctx context.Context, file, byteRange string) (*http.Response, string, error) {
	var found models.File
	err := a.call(ctx, "getFile", map[string]any{"file_id": file}, &found)
	switch {
	case botapi.Code(err) == http.StatusBadRequest:
		return nil, "", fmt.Errorf("the file is larger than 20 MB, and Telegram does not provide it: %w", bridge.ErrNoFile)
	case err != nil || found.FilePath == "":
		return nil, "", err
	}
	resp, err := a.api.Download(ctx, found.FilePath, byteRange)
	return resp, found.FilePath, err
}

// captionOf renders the text of a message with a file. It stays as written if it then fits and otherwise
// does not, such as a table, whose columns become wider.
func captionOf(markup string) markdown.Text {
	texts := markdown.Split(markdown.Render(markup), protocol.MaxCaption)
	if len(texts) > 1 {
		texts = markdown.Split(markdown.Plain(markup), protocol.MaxCaption)
	}
	return slices.Concat(texts, []markdown.Text{{}})[0]
}

// A sendMethod is a way to send a message: as text, photo or document.
type sendMethod struct {
	method, text, entities string
	field                  string // the parameter for the file; empty for text
	file                   *protocol.File
}

// setText adds a text to the parameters of a call: in its rich form, if it has one and the server
// accepts it.
func (out *outbound) setText(params map[string]any, s *sendMethod, t markdown.Text) {
	if len(t.Rich) > 0 && s.file == nil && !out.plain.Load() {
		params["rich_message"] = map[string]any{"blocks": t.Rich}
		return
	}
	params[s.text] = t.Text
	if len(t.Entities) > 0 {
		params[s.entities] = t.Entities
	}
}

// callWithText makes a call with a text. If Telegram refuses the rich form, the text is sent with
// entities. A server without the method gets no rich form any more.
func (out *outbound) callWithText(ctx context.Context, method string, params map[string]any, t markdown.Text,
	made any) error {
	if params["rich_message"] == nil {
		return out.call(ctx, method, params, made)
	}
	err := out.call(ctx, strings.Replace(method, "sendMessage", "sendRichMessage", 1), params, made)
	refused, ok := errors.AsType[*botapi.Error](err)
	if !ok || refused.Code != http.StatusNotFound && refused.Code != http.StatusBadRequest ||
		refused.MigrateTo != 0 || refused.Says("not modified") {
		return err
	}
	out.log.Info().Err(err).Msg("rich message refused by Telegram; sending plain text")
	if refused.Code == http.StatusNotFound {
		out.plain.Store(true)
	}
	delete(params, "rich_message")
	t.Rich = nil
	out.setText(params, &textMethod, t)
	return out.call(ctx, method, params, made)
}

var (
	textMethod     = sendMethod{method: "sendMessage", text: "text", entities: "entities"}
	photoMethod    = sendMethod{method: "sendPhoto", text: "caption", entities: "caption_entities", field: "photo"}
	documentMethod = sendMethod{method: "sendDocument", text: "caption", entities: "caption_entities",
		field: "document"}
)

// sendMethodOf returns how a reply is sent. A file whose content is a JPEG or PNG is sent as a
// photo.
func sendMethodOf(content *protocol.ChatReply) sendMethod {
	s := textMethod
	if content.File != nil {
		s = documentMethod
		if kind := http.DetectContentType(content.File.Data); kind == "image/jpeg" || kind == "image/png" {
			s = photoMethod
		}
		s.file = content.File
	}
	return s
}

// transmit calls a send method.
func (out *outbound) transmit(ctx context.Context, s *sendMethod, params map[string]any, t markdown.Text,
	made *models.Message) error {
	if s.file == nil {
		return out.callWithText(ctx, s.method, params, t, made)
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	return out.api.Upload(ctx, s.method, params, botapi.File{Field: s.field, Name: s.file.Name, Data: s.file.Data},
		made)
}
