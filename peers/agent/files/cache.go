package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/rs/zerolog"
	"golang.org/x/sync/singleflight"
)

// Bounds of files.
const (
	maxFile       = 20 << 20 // of one file, the limit of Telegram for bots
	maxImage      = 5 << 20  // of an image shown to a model
	maxImages     = 10       // per turn, the limit of an album
	maxImageBytes = 15 << 20 // of all images of one turn
	fetchTime     = 30 * time.Second
	maxRefusal    = 300 // of a bridge's reason for refusing a file
	kindVoice     = "voice"
)

// A Cache fetches and stores the files of one agent.
type Cache struct {
	Mailbox    *mailbox.Mailbox
	Client     *http.Client // fetches files; nil disables fetching
	Transcribe Transcriber  // nil disables transcripts of voice messages
	ReadPDF    Transcriber  // nil disables reading PDFs
	Log        *zerolog.Logger

	inFlight singleflight.Group // keyed by reference
}

// A problem is a sentence for a model about a file that is not available.
type problem string

func (p problem) Error() string { return string(p) }

// Problem returns the sentence for a model about the error.
func Problem(err error) string {
	if p, ok := errors.AsType[problem](err); ok {
		return string(p)
	}
	return "it could not be fetched; try to read it later"
}

// Get returns a file that came with a message of a chat. It is fetched at most once, unless
// fetching fails temporarily.
func (k *Cache) Get(ctx context.Context, chat protocol.Topic, a *protocol.Attachment) (*mailbox.File, error) {
	switch {
	case a.Size > maxFile:
		return nil, problem(fmt.Sprintf("it has %s; files over %s are not fetched", megabytes(a.Size),
			megabytes(maxFile)))
	case a.Ref == "" || k.Client == nil:
		return nil, problem("its bridge serves no files")
	case !mailbox.ShowsMessages(chat):
		return nil, problem("only files of Telegram and Matrix are fetched")
	}
	got, err, _ := k.inFlight.Do(a.Ref, func() (any, error) { return k.load(ctx, a.Ref) })
	if err != nil {
		if _, said := errors.AsType[problem](err); !said && ctx.Err() == nil {
			k.Log.Warn().Err(err).Msg("file of a message not fetched")
		}
		return nil, err
	}
	f := got.(*mailbox.File) //nolint:errcheck // keep returns nothing else
	if f.Problem != "" {
		return nil, problem(f.Problem)
	}
	return f, nil
}

// load returns a stored file, or fetches and stores it.
func (k *Cache) load(ctx context.Context, ref string) (*mailbox.File, error) {
	v := k.Mailbox.View(ctx)
	if f := v.File(ref); f != nil || v.Err() != nil {
		return f, v.Err()
	}
	f, err := k.fetch(ctx, ref)
	if err != nil {
		return nil, err
	}
	return f, k.Mailbox.InTx(ctx, func(tx *mailbox.Tx) { tx.SaveFile(f) })
}

// fetch fetches a file. A permanent refusal is returned as a file with a problem.
func (k *Cache) fetch(ctx context.Context, ref string) (*mailbox.File, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, ref, http.NoBody)
	if err != nil {
		return nil, problem("its reference is not a URL")
	}
	response, err := k.Client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("fetching a file: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("fetching a file: %w", err)
	case response.StatusCode == http.StatusNotFound:
		return &mailbox.File{Ref: ref, Problem: cmp.Or(text.OneLine(text.Prefix(string(body), maxRefusal)),
			"it no longer exists")}, nil
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("fetching a file: the bridge answered %d", response.StatusCode)
	case len(body) > maxFile:
		return &mailbox.File{Ref: ref, Problem: "it has more than " + megabytes(maxFile) +
			"; such files are not fetched"}, nil
	}
	return &mailbox.File{Ref: ref, Mime: typeOf(body), Body: body}, nil
}

// typeOf detects the MIME type of a file, without parameters.
func typeOf(body []byte) string {
	mime, _, _ := strings.Cut(http.DetectContentType(body), ";")
	return mime
}

func megabytes(n int64) string {
	if n < 1<<20 {
		return text.Counted(int(n), "byte")
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}
