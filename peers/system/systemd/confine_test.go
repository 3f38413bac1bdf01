package systemd_test

import (
	"strings"
	"testing"

	"hubbub/peers/system/systemd"
)

// TestCheckUnit_NamesTheMistake checks that only the sandbox can be changed, and what each refusal
// says.
func TestCheckUnit_NamesTheMistake(t *testing.T) {
	for line, why := range map[string]string{
		"User=root":                       `"User=root" is not one of these, followed by = and a value: `,
		"ProtectHome":                     `"ProtectHome" is not one of these, followed by = and a value: `,
		"MemoryDenyWriteExecute=maybe":    "MemoryDenyWriteExecute must be yes or no",
		"ReadWritePaths=":                 "ReadWritePaths needs a value",
		"MemoryDenyWriteExecute=no":       "",
		"SystemCallFilter=@resources":     "",
		"ReadWritePaths=/srv/hubbub-work": "",
	} {
		switch err := systemd.CheckUnit(line); {
		case why == "" && err != nil, why != "" && (err == nil || !strings.HasPrefix(err.Error(), why)):
			t.Errorf("%s: %v; want %q", line, err, why)
		}
	}
}
