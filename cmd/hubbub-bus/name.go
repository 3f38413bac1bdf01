package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hubbub/bus"
	"hubbub/cmd/internal/program"
	"hubbub/protocol/datafolder"
	"hubbub/protocol/text"
)

// nameFile keeps the name of the bus in its data folder.
const nameFile = "bus.name"

// keptName returns the name of a bus without --name. It chooses a random name at the first start
// and keeps it, because the other buses of a cluster would miss the old name. A name is not
// copied to another data folder: two buses need two names.
func keptName(data string) (string, error) {
	path := filepath.Join(data, nameFile)
	raw, err := os.ReadFile(path)
	switch name := strings.TrimSpace(string(raw)); {
	case errors.Is(err, fs.ErrNotExist):
		name = bus.NewName()
		if err := datafolder.WriteFile(path, []byte(name+"\n")); err != nil {
			return "", fmt.Errorf("keeping the name of the bus: %w", err)
		}
		return name, nil
	case err != nil:
		return "", fmt.Errorf("reading the name of the bus: %w", err)
	case name == "" || len(name) > program.MaxName || !text.IsCleanName(name):
		return "", program.Usage("%s does not hold the name of a bus: remove it for a new name, or give --name", path)
	default:
		return name, nil
	}
}
