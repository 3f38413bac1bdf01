package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"hubbub/protocol/datafolder"
)

// addressFile is the file with the demo's address, in its data folder.
const addressFile = "demo.json"

// latestPath returns the file with the address of the latest demo, for callers that do not know
// its data folder.
func latestPath() string {
	name := "hubbub-demo-" + strconv.Itoa(os.Getuid()) + ".json"
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, name)
	}
	return filepath.Join(os.TempDir(), name)
}

// writeAddress writes the address of the demo to files that only the owner can read. The returned
// function removes them.
func writeAddress(a Address) (remove func(), err error) {
	paths := []string{filepath.Join(a.Data, addressFile), latestPath()}
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := datafolder.WriteFile(path, raw); err != nil {
			return nil, fmt.Errorf("writing the address of the demo: %w", err)
		}
	}
	return func() {
		for _, path := range paths {
			if now, err := readAddress(path); err == nil && now == a {
				_ = os.Remove(path) // a stale address does no harm
			}
		}
	}, nil
}

// ReadAddress returns the address of the demo in a data folder or, if data is empty, of the
// latest demo.
func ReadAddress(data string) (Address, error) {
	path := latestPath()
	if data != "" {
		path = filepath.Join(data, addressFile)
	}
	a, err := readAddress(path)
	if errors.Is(err, fs.ErrNotExist) {
		return a, errors.New("no demo is running: start one with `hubbub demo`")
	}
	return a, err
}

func readAddress(path string) (Address, error) {
	var a Address
	info, err := os.Lstat(path)
	if err != nil {
		return a, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	// In a shared folder, somebody else's file is not trusted.
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || !ok || int(owner.Uid) != os.Getuid() {
		return a, fmt.Errorf("%s is not a file that only you can read; remove it", path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(raw, &a)
}
