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

	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// filesPath is the path of references on the files' listener.
const filesPath = "/telegram-files/"

// files gives out references to Telegram's files and serves them: whoever has a
// reference can fetch the file from the bridge, and never sees the bot token.
type files struct{ *account }

// refer returns references to a message's files.
func (f *files) refer(tx *store.Tx, list []attachment) (out []protocol.Attachment) {
	for _, a := range list {
		if f.opts.FilesListen != NoFiles || f.opts.FilesURL != "" {
			a.Ref = f.address(tx) + filesPath + store.Value[string](tx, `INSERT INTO files (ref, bot, file_id, name, mime, at) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (bot, file_id) DO UPDATE SET ref = ref RETURNING ref`, rand.Text(), f.bot, a.fileID, a.Name, a.MimeType, now())
		}
		out = append(out, a.Attachment)
	}
	return out
}

// address returns the base address of references.
func (f *files) address(tx *store.Tx) string {
	if f.opts.FilesURL != "" {
		return strings.TrimRight(f.opts.FilesURL, "/")
	}
	return "http://" + cmp.Or(f.remembered(tx, "files_addr"), "127.0.0.1")
}

// open listens before anything else runs, so that references name the right port.
// It returns what serves them until its context ends.
func (f *files) open(ctx context.Context) (serve func(context.Context) error, err error) {
	if f.opts.FilesListen == NoFiles {
		return func(context.Context) error { return nil }, nil
	}
	tx := store.On(ctx, f.db)
	l, err := f.listen(ctx, f.remembered(tx, "files_addr"))
	if err != nil {
		return nil, err
	}
	if tx.Exec(`UPDATE bots SET files_addr = ? WHERE bot = ?`, l.Addr().String(), f.bot); tx.Err() != nil {
		return nil, errors.Join(tx.Err(), l.Close())
	}
	return func(ctx context.Context) error { return serveHTTP(ctx, l, f) }, nil
}

// listen opens the listener. Without --files-listen it takes the address of the last
// start, so that references stay good, or any other port.
func (f *files) listen(ctx context.Context, last string) (net.Listener, error) {
	var config net.ListenConfig
	if chosen := f.opts.FilesListen; chosen != "" {
		l, err := config.Listen(ctx, "tcp", chosen)
		if err != nil {
			err = fmt.Errorf("listening for files on %s (see --files-listen): %w", chosen, err)
		}
		return l, err
	}
	if l, err := config.Listen(ctx, "tcp", last); last != "" && err == nil {
		return l, nil
	}
	return config.Listen(ctx, "tcp", "127.0.0.1:0")
}

// ServeHTTP answers with a file's content.
func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ref, ok := strings.CutPrefix(r.URL.Path, filesPath)
	if !ok || ref == "" || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	type row struct{ fileID, name, kind string }
	tx := store.On(r.Context(), f.db)
	known, found := store.Get(tx, func(k *row) []any { return []any{&k.fileID, &k.name, &k.kind} },
		`SELECT file_id, name, mime FROM files WHERE ref = ? AND bot = ?`, ref, f.bot)
	err := tx.Err()
	if !found && err == nil {
		http.NotFound(w, r)
		return
	}
	var file models.File
	var resp *http.Response
	if err == nil {
		err = f.call(r.Context(), "getFile", map[string]any{"file_id": known.fileID}, &file)
	}
	if file.FilePath != "" && err == nil {
		resp, err = f.api.Download(r.Context(), file.FilePath, r.Header.Get("Range"))
	}
	if resp == nil {
		f.refuse(w, err)
		return
	}
	defer resp.Body.Close()
	h := w.Header()
	h.Set("Content-Type", cmp.Or(known.kind, mime.TypeByExtension(filepath.Ext(file.FilePath)), "application/octet-stream"))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": known.name}))
	for _, copied := range []string{"Content-Length", "Content-Range", "Accept-Ranges"} {
		if v := resp.Header.Get(copied); v != "" {
			h.Set(copied, v)
		}
	}
	w.WriteHeader(resp.StatusCode)
	if r.Method == http.MethodGet {
		_, _ = io.Copy(w, resp.Body) // the reader may have gone
	}
}

// refuse answers with what a person can do about a file that is not available.
func (f *files) refuse(w http.ResponseWriter, err error) {
	if botapi.Code(err) == http.StatusBadRequest {
		http.Error(w, "Telegram does not give this file: it is over 20 MB, or gone", http.StatusNotFound)
		return
	}
	if err != nil {
		f.log.Warn().Err(err).Msg("file not fetched from Telegram")
	}
	http.Error(w, "Telegram cannot be reached for this file; try again", http.StatusBadGateway)
}
