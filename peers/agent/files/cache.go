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
	MaxFile       = 20 << 20 // bytes of one, as of Telegram for bots
	MaxImage      = 5 << 20  // bytes of an image that a model is shown
	MaxImages     = 10       // of one turn, as of an album
	maxImageBytes = 15 << 20 // bytes of all images of one turn
	fetchTime     = 30 * time.Second
	maxRefusal    = 300 // bytes of what a bridge says of a file that it does not give
	kindVoice     = "voice"
)

// A Cache has the files of one agent.
type Cache struct {
	Mailbox    *mailbox.Mailbox
	Client     *http.Client // fetches; nil: nothing is
	Transcribe Transcriber  // nil: voice messages have no words
	ReadPDF    Transcriber  // nil: PDFs have none
	Log        *zerolog.Logger

	inFlight singleflight.Group // by reference
}

// A problem is a sentence about a file that cannot be had, for a model.
type problem string

func (p problem) Error() string { return string(p) }

// Problem returns what to tell a model about a file that could not be had.
func Problem(err error) string {
	if p, ok := errors.AsType[problem](err); ok {
		return string(p)
	}
	return "it could not be fetched just now; it can be read later"
}

// Get returns a file that came with a message of a chat. It is fetched at most once,
// whoever asks for it how often, unless that failed for now.
func (k *Cache) Get(ctx context.Context, chat protocol.Topic, a *protocol.Attachment) (*mailbox.File, error) {
	switch {
	case a.Size > MaxFile:
		return nil, problem(fmt.Sprintf("it has %s, and files of more than %s are not fetched", megabytes(a.Size), megabytes(MaxFile)))
	case a.Ref == "" || k.Client == nil:
		return nil, problem("its bridge serves no files")
	case protocol.PeerID(chat).Family() != "tg":
		return nil, problem("only files of Telegram are fetched")
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

// load returns what is kept of a reference, or fetches and keeps it.
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

// fetch asks for a file. A refusal that will not change is a file with a problem.
func (k *Cache) fetch(ctx context.Context, ref string) (*mailbox.File, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, ref, http.NoBody)
	if err != nil {
		return nil, problem("its reference is no address")
	}
	response, err := k.Client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("fetching a file: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, MaxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("fetching a file: %w", err)
	case response.StatusCode == http.StatusNotFound:
		return &mailbox.File{Ref: ref, Problem: cmp.Or(text.OneLine(text.Prefix(string(body), maxRefusal)), "it is gone")}, nil
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("fetching a file: the bridge answered %d", response.StatusCode)
	case len(body) > MaxFile:
		return &mailbox.File{Ref: ref, Problem: "it has more than " + megabytes(MaxFile) + ", and such files are not fetched"}, nil
	}
	return &mailbox.File{Ref: ref, Mime: typeOf(body), Body: body}, nil
}

// typeOf returns what the bytes of a file are, without parameters.
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
