package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"

	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

func newConsole() *cobra.Command {
	var open bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Print a link that opens the bus's web console",
		Long: "Ask the bus for a link to its console, and print it. Where the bus has credentials the\n" +
			"link works once, for two minutes, and lets the browser in with the rights of the token\n" +
			"that this command uses. To act by a link is possible for half an hour; after that its\n" +
			"pages only look, until twelve hours pass in which nothing asks for one.",
		Example: "  hubbub console\n  hubbub console --open",
		RunE: func(cmd *cobra.Command, _ []string) error {
			link, err := consoleLink(cmd.Context(), program.From(cmd))
			if err == nil {
				err = printLine(cmd, link, "%s", link.URL)
			}
			if err == nil && open {
				err = openBrowser(link.URL)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&open, "open", false, "open it in the browser of this machine too")
	return cmd
}

// An invitation is a link to the console.
type invitation struct {
	URL       string `json:"url"`
	ExpiresIn int    `json:"expiresIn,omitempty"` // seconds; 0 for one that does not
}

// consoleLink asks the first bus that answers for a link.
func consoleLink(ctx context.Context, env *program.Env) (link invitation, err error) {
	raw, bus, err := fetch(ctx, env, http.MethodPost, "/console/link", describeConsole)
	if err != nil {
		return link, err
	}
	err = json.Unmarshal(raw, &link)
	if u, parsed := url.Parse(link.URL); err != nil || parsed != nil || u.Host == "" {
		return link, fmt.Errorf("the bus at %s answered with no link", bus)
	}
	return link, nil
}

// describeConsole says what to do about a console that does not answer.
func describeConsole(bus, token string, err error) error {
	switch status, _ := errors.AsType[statusError](err); status {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fmt.Errorf("the bus at %s has no console: it runs with --no-console, or is older", bus)
	case http.StatusForbidden:
		return fmt.Errorf("this token may not see everything that the console shows: it needs one that may subscribe to '*'")
	}
	return describeGet(bus, token, err)
}

// openBrowser opens a link in the browser of the machine.
func openBrowser(link string) error {
	opener, args := "xdg-open", []string{link}
	switch runtime.GOOS {
	case "darwin":
		opener = "open"
	case "windows":
		opener, args = "rundll32", []string{"url.dll,FileProtocolHandler", link}
	}
	if err := exec.Command(opener, args...).Start(); err != nil {
		return fmt.Errorf("no browser can be opened here (%w); open the link yourself", err)
	}
	return nil
}
