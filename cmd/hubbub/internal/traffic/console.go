package traffic

import (
	"fmt"
	"os/exec"
	"runtime"

	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

// NewConsole returns the command `hubbub console`.
func NewConsole() *cobra.Command {
	var open bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Print a link that opens the bus's web console",
		Long: "Ask the bus for a link to its console, and print it. If the bus has credentials, the link works\n" +
			"once, within two minutes. It gives the browser the rights of the token that this command uses.\n" +
			"For half an hour the browser can act; then its pages are read-only, until they have not been\n" +
			"used for twelve hours.",
		Example: "  hubbub console\n  hubbub console --open",
		RunE: func(cmd *cobra.Command, _ []string) error {
			link, err := busclient.ConsoleLink(cmd.Context(), program.From(cmd))
			if err == nil {
				err = output.Line(cmd, link, "%s", link.URL)
			}
			if err == nil && open {
				err = openBrowser(link.URL)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&open, "open", false, "also open it in the browser of this machine")
	return cmd
}

// openBrowser opens a link in the browser.
func openBrowser(link string) error {
	opener, args := "xdg-open", []string{link}
	switch runtime.GOOS {
	case "darwin":
		opener = "open"
	case "windows":
		opener, args = "rundll32", []string{"url.dll,FileProtocolHandler", link}
	}
	if err := exec.Command(opener, args...).Start(); err != nil {
		return fmt.Errorf("the browser cannot be opened (%w); open the link yourself", err)
	}
	return nil
}
