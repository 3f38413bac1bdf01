package busclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"hubbub/cmd/internal/program"
)

// A Link opens the console.
type Link struct {
	URL       string `json:"url"`
	ExpiresIn int    `json:"expiresIn,omitempty"` // seconds; 0 if it does not expire
}

// ConsoleLink asks the first bus that answers for a link to its console.
func ConsoleLink(ctx context.Context, env *program.Env) (link Link, err error) {
	raw, bus, err := Fetch(ctx, env, http.MethodPost, "/console/link", ExplainConsole)
	if err != nil {
		return link, err
	}
	err = json.Unmarshal(raw, &link)
	if u, parsed := url.Parse(link.URL); err != nil || parsed != nil || u.Host == "" {
		return link, fmt.Errorf("the bus at %s answered without a link", bus)
	}
	return link, nil
}

// ExplainConsole adds advice to the error of a request to the console.
func ExplainConsole(bus, token string, err error) error {
	switch status, _ := errors.AsType[statusError](err); status {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fmt.Errorf("the bus at %s has no console: it runs with --no-console", bus)
	}
	return ExplainGet(bus, token, err)
}
