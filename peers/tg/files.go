package tg

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"path/filepath"
	"strings"

	"hubbub/peers/markdown"
	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// filesPath is the path of file references. Whoever has a reference can fetch the file from the
// bridge, without the bot token.
const filesPath = "/telegram-files/"

// addRefs returns the attachments of a message with references.
func (a *account) addRefs(tx *store.Tx, list []attachment) (out []protocol.Attachment) {
	for _, file := range list {
		if a.opts.FilesListen != NoFiles || a.opts.FilesURL != "" {
			file.Ref = a.filesAddress(tx) + filesPath + store.Value[string](tx,
				`INSERT INTO files (ref, bot, file_id, name, mime, at) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (bot, file_id) DO UPDATE SET ref = ref RETURNING ref`, rand.Text(), a.bot, file.fileID,
				file.Name, file.MimeType, nowMicros())
		}
		out = append(out, file.Attachment)
	}
	return out
}

// filesAddress returns the base address of references.
func (a *account) filesAddress(tx *store.Tx) string {
	if a.opts.FilesURL != "" {
		return strings.TrimRight(a.opts.FilesURL, "/")
	}
	return "http://" + cmp.Or(a.botColumn(tx, "files_addr"), "127.0.0.1")
}

// openFiles opens the listener for files before anything else runs, so that references have the
// right port. It returns the function that serves them.
func (a *account) openFiles(ctx context.Context) (serve func(context.Context) error, err error) {
	if a.opts.FilesListen == NoFiles {
		return func(context.Context) error { return nil }, nil
	}
	last, err := store.Read(ctx, a.db, func(tx *store.Tx) string { return a.botColumn(tx, "files_addr") })
	if err != nil {
		return nil, err
	}
	l, err := a.listenForFiles(ctx, last)
	if err != nil {
		return nil, err
	}
	err = store.Autocommit(ctx, a.db, func(tx *store.Tx) {
		tx.Exec(`UPDATE bots SET files_addr = ? WHERE bot = ?`, l.Addr().String(), a.bot)
	})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return func(ctx context.Context) error { return serveHTTP(ctx, l, http.HandlerFunc(a.serveFile)) }, nil
}

// listenForFiles opens the listener. Without --files-listen it reuses the address of the last
// start if it can, so that references remain valid.
func (a *account) listenForFiles(ctx context.Context, last string) (net.Listener, error) {
	var config net.ListenConfig
	if chosen := a.opts.FilesListen; chosen != "" {
		l, err := config.Listen(ctx, "tcp", chosen)
		if err != nil {
			err = fmt.Errorf("listening for files on %s (see --files-listen): %w", chosen, err)
		}
		return l, err
	}
	if last != "" { // an empty address would listen on all interfaces
		if l, err := config.Listen(ctx, "tcp", last); err == nil {
			return l, nil
		}
	}
	return config.Listen(ctx, "tcp", "127.0.0.1:0")
}

// serveFile serves the content of a file.
func (a *account) serveFile(w http.ResponseWriter, r *http.Request) {
	ref, ok := strings.CutPrefix(r.URL.Path, filesPath)
	if !ok || ref == "" || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	type row struct{ fileID, name, kind string }
	known, err := store.Read(r.Context(), a.db, func(tx *store.Tx) row {
		k, _ := store.One(tx, func(k *row) []any { return []any{&k.fileID, &k.name, &k.kind} },
			`SELECT file_id, name, mime FROM files WHERE ref = ? AND bot = ?`, ref, a.bot)
		return k
	})
	if known.fileID == "" && err == nil {
		http.NotFound(w, r)
		return
	}
	var file models.File
	var resp *http.Response
	if err == nil {
		err = a.call(r.Context(), "getFile", map[string]any{"file_id": known.fileID}, &file)
	}
	if file.FilePath != "" && err == nil {
		resp, err = a.api.Download(r.Context(), file.FilePath, r.Header.Get("Range"))
	}
	if resp == nil {
		a.writeFileError(w, err)
		return
	}
	defer resp.Body.Close()
	h := w.Header()
	h.Set("Content-Type", cmp.Or(known.kind, mime.TypeByExtension(filepath.Ext(file.FilePath)),
		"application/octet-stream"))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": known.name}))
	for _, copied := range []string{"Content-Length", "Content-Range", "Accept-Ranges"} {
		if v := resp.Header.Get(copied); v != "" {
			h.Set(copied, v)
		}
	}
	w.WriteHeader(resp.StatusCode)
	if r.Method == http.MethodGet {
		_, _ = io.Copy(w, resp.Body) // the client may have left
	}
}

// writeFileError answers for a file that is not available, with what a person can do.
func (a *account) writeFileError(w http.ResponseWriter, err error) {
	if botapi.Code(err) == http.StatusBadRequest {
		http.Error(w, "Telegram does not provide this file: it is larger than 20 MB, or deleted", http.StatusNotFound)
		return
	}
	if err != nil {
		a.log.Warn().Err(err).Msg("file not fetched from Telegram")
	}
	http.Error(w, "Telegram cannot be reached for this file; try again", http.StatusBadGateway)
}

// captionOf renders the text of a message with a file.
func captionOf(markup string) markdown.Text {
	if texts := markdown.Split(markdown.Render(markup), protocol.MaxCaption); len(texts) > 0 {
		return texts[0]
	}
	return markdown.Text{}
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
