package reference

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"

	"hubbub/cmd/internal/program"
)

// Read asks the program at path about itself. It waits until the program ends.
func Read(ctx context.Context, path string) (program.Description, error) {
	var d program.Description
	out, err := exec.CommandContext(ctx, path, "--describe").Output()
	if err != nil {
		return d, fmt.Errorf("asking %s for its settings: %w", path, err)
	}
	if err := json.Unmarshal(out, &d); err != nil {
		return d, fmt.Errorf("the settings of %s are no JSON: %w (is it of another version?)", path, err)
	}
	return d, nil
}
