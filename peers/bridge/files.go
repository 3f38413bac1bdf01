package bridge

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
	"time"

	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/http1"

	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"
)

// NoFiles, as FileServer.Listen, disables the listener for files. Attachments then have
// references only if URL is set.
const NoFiles = "none"

// A FileServer serves the files of messages to agents. Anyone who has the reference of a file can
// fetch it, without the secret of the bot.
type FileServer struct {
	Name   string // of the bridge's router
	Path   string // of references, such as "/telegram-files/"
	Listen string // default 127.0.0.1 with a port that stays the same; NoFiles: none
	URL    string // public address of the listener; default http://<Listen>
	DB     *store.DB
	// Fetch fetches a file by its ID from the chat system, or a range of it. It returns the file's
	// usual name. An error of ErrNoFile is shown to the agent.
	Fetch func(ctx context.Context, file, byteRange string) (*http.Response, string, error)
	Log   *zerolog.Logger
}

// stopTimeout limits the requests in progress when the server stops.
const stopTimeout = 6 * time.Second

// MaxFile limits the files that are passed on, in bytes, as Telegram does for bots.
const MaxFile = 20 << 20

// maxFetches bounds the files that are passed on at once, some of which are in memory. Further
// requests wait up to maxFetchTime, which is also the time limit for passing on a file.
const (
	maxFetches   = 8
	maxFetchTime = 2 * time.Minute
)

var fetches = semaphore.NewWeighted(maxFetches)

// ErrNoFile is the error of a file that the chat system does not provide.
var ErrNoFile = errors.New("the file is too large, or deleted")

// A StoredFile is a file of a message with its ID in the chat system.
type StoredFile struct {
	protocol.Attachment
	ID string
}

// Attachments returns the attachments of a message with references.
func (s *FileServer) Attachments(tx *store.Tx, list []StoredFile) (out []protocol.Attachment) {
	for _, file := range list {
		if s.Listen != NoFiles || s.URL != "" {
			file.Ref = s.address(tx) + s.Path + store.Value[string](tx,
				`INSERT INTO bridge_files (ref, bridge, file, name, mime, at) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (bridge, file) DO UPDATE SET ref = ref RETURNING ref`, rand.Text(), s.Name, file.ID,
				file.Name, file.MimeType, time.Now().UnixMicro())
		}
		out = append(out, file.Attachment)
	}
	return out
}

// address returns the base address of references.
func (s *FileServer) address(tx *store.Tx) string {
	if s.URL != "" {
		return strings.TrimRight(s.URL, "/")
	}
	return "http://" + cmp.Or(s.lastAddress(tx), "127.0.0.1")
}

// lastAddress returns where the listener of this or the last start listens, or "".
func (s *FileServer) lastAddress(tx *store.Tx) string {
	return store.Value[string](tx, `SELECT address FROM bridge_listeners WHERE bridge = ?`, s.Name)
}

// Open opens the listener before anything else runs, so that references have the right port. It
// returns the function that serves the files until its context ends.
func (s *FileServer) Open(ctx context.Context) (serve func(context.Context) error, err error) {
	if s.Listen == NoFiles {
		return func(context.Context) error { return nil }, nil
	}
	last, err := store.Read(ctx, s.DB, s.lastAddress)
	if err != nil {
		return nil, err
	}
	l, err := s.listen(ctx, last)
	if err != nil {
		return nil, err
	}
	err = store.Exec(ctx, s.DB,
		`INSERT OR REPLACE INTO bridge_listeners (bridge, address) VALUES (?, ?)`, s.Name, l.Addr().String())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return func(ctx context.Context) error {
		return http1.Serve(ctx, l, http1.NewServer(http.HandlerFunc(s.serve)), stopTimeout)
	}, nil
}

// listen opens the listener. Without --files-listen it reuses the address of the last start if
// it can, so that references remain valid.
func (s *FileServer) listen(ctx context.Context, last string) (net.Listener, error) {
	var config net.ListenConfig
	if s.Listen != "" {
		l, err := config.Listen(ctx, "tcp", s.Listen)
		if err != nil {
			err = fmt.Errorf("listening for files on %s (see --files-listen): %w", s.Listen, err)
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

// serve serves the content of a file.
func (s *FileServer) serve(w http.ResponseWriter, r *http.Request) {
	ref, ok := strings.CutPrefix(r.URL.Path, s.Path)
	if !ok || ref == "" || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	type row struct{ file, name, kind string }
	known, err := store.Read(r.Context(), s.DB, func(tx *store.Tx) row {
		k, _ := store.One(tx, func(k *row) []any { return []any{&k.file, &k.name, &k.kind} },
			`SELECT file, name, mime FROM bridge_files WHERE ref = ? AND bridge = ?`, ref, s.Name)
		return k
	})
	if known.file == "" && err == nil {
		http.NotFound(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxFetchTime)
	defer cancel()
	var resp *http.Response
	var usual string
	if err == nil {
		err = fetches.Acquire(ctx, 1)
	}
	if err == nil {
		defer fetches.Release(1)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxFetchTime)) // a test has no connection
		resp, usual, err = s.Fetch(ctx, known.file, r.Header.Get("Range"))
	}
	if err == nil && resp != nil && resp.StatusCode == http.StatusOK && resp.ContentLength > MaxFile {
		resp.Body.Close()
		err = fmt.Errorf("it has %d bytes; files of at most %d are passed on: %w", resp.ContentLength, MaxFile, ErrNoFile)
	}
	if err != nil || resp == nil { // with an error, the answer is not a file, and its body is closed
		s.writeError(w, err)
		return
	}
	defer resp.Body.Close()
	h := w.Header()
	h.Set("Content-Type", cmp.Or(known.kind, mime.TypeByExtension(filepath.Ext(usual)), "application/octet-stream"))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": known.name}))
	for _, copied := range []string{"Content-Length", "Content-Range", "Accept-Ranges"} {
		if v := resp.Header.Get(copied); v != "" {
			h.Set(copied, v)
		}
	}
	w.WriteHeader(resp.StatusCode)
	if r.Method != http.MethodGet {
		return
	}
	_, _ = io.CopyN(w, resp.Body, MaxFile) // the client may have left
	if n, _ := resp.Body.Read(make([]byte, 1)); n > 0 {
		panic(http.ErrAbortHandler) // the length was not known; the client must not take a part for the file
	}
}

// writeError answers for a file that is not available, with what a person can do.
func (s *FileServer) writeError(w http.ResponseWriter, err error) {
	if errors.Is(err, ErrNoFile) {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if err != nil {
		s.Log.Warn().Err(err).Msg("file of a message not fetched from the chat system")
	}
	http.Error(w, "the chat system cannot be reached for this file; try again", http.StatusBadGateway)
}
