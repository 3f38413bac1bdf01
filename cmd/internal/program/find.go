package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Find returns the path of one of our programs: beside this one, or in PATH.
func Find(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			path := filepath.Join(filepath.Dir(self), name)
			if info, err := os.Stat(path); err == nil && !info.IsDir() {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the program %s is neither beside this one nor in PATH; build it with: make build", name)
	}
	return filepath.Abs(path)
}
