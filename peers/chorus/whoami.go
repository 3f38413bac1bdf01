package chorus

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"hubbub/protocol"
)

// bearers asks the bus whose a bearer token is. It keeps answers for less than a
// second, within which a revoked token must be dead.
type bearers struct {
	urls   []string // of whoami, one for each bus
	client *http.Client
	now    func() time.Time

	mu    sync.Mutex
	known map[string]bearer // by the hash of the Authorization header
}

type bearer struct {
	patterns []string
	until    time.Time
}

const (
	bearerLife = 500 * time.Millisecond
	maxBearers = 1024
	whoTimeout = 5 * time.Second
)

func newBearers(buses []string, now func() time.Time) *bearers {
	b := &bearers{client: &http.Client{Timeout: whoTimeout}, now: now, known: map[string]bearer{}}
	for _, bus := range buses {
		if u, err := url.Parse(bus); err == nil {
			u.Scheme = strings.Replace(u.Scheme, "ws", "http", 1)
			u.Path = strings.TrimRight(u.Path, "/") + "/whoami"
			b.urls = append(b.urls, u.String())
		}
	}
	return b
}

var errWho = refuse(http.StatusServiceUnavailable, "the bus cannot be asked whose token this is; try again")

// mayBe reports whether the holder of an Authorization header may speak as id on
// the bus.
func (b *bearers) mayBe(ctx context.Context, authorization string, id protocol.PeerID) (bool, error) {
	patterns, err := b.patternsOf(ctx, authorization)
	if err != nil {
		return false, err
	}
	for _, text := range patterns {
		if p, err := protocol.ParsePattern(text); err == nil && p.Matches(protocol.Topic(id)) {
			return true, nil
		}
	}
	return false, nil
}

func (b *bearers) patternsOf(ctx context.Context, authorization string) ([]string, error) {
	key := hashSecret(authorization)
	b.mu.Lock()
	kept, ok := b.known[key]
	b.mu.Unlock()
	if ok && b.now().Before(kept.until) {
		return kept.patterns, nil
	}
	var failure error = errWho
	for _, u := range b.urls {
		patterns, err := b.ask(ctx, u, authorization)
		if err != nil {
			failure = err
			continue
		}
		b.mu.Lock()
		if len(b.known) >= maxBearers {
			clear(b.known)
		}
		b.known[key] = bearer{patterns, b.now().Add(bearerLife)}
		b.mu.Unlock()
		return patterns, nil
	}
	return nil, failure
}

// ask returns the identities of a token, and none if the bus does not know it.
func (b *bearers) ask(ctx context.Context, u, authorization string) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, errWho
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, errWho
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, nil
	default:
		return nil, errWho
	}
	var answer struct {
		Identities []string `json:"identities"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer); err != nil {
		return nil, errWho
	}
	return answer.Identities, nil
}
