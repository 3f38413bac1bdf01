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

// addressFile is the name of the file in the demo's data folder.
const addressFile = "demo.json"

// latestPath is the file with the address of the latest demo, for those who do not
// know its data folder.
func latestPath() string {
	name := "hubbub-demo-" + strconv.Itoa(os.Getuid()) + ".json"
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, name)
	}
	return filepath.Join(os.TempDir(), name)
}

// WriteAddress writes where the demo is reached, readable by its owner alone.
// The returned function removes it.
func WriteAddress(a Address) (remove func(), err error) {
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
				_ = os.Remove(path) // a stale address does not answer
			}
		}
	}, nil
}

// ReadAddress returns the address of the demo in a data folder, or, where data
// is empty, of the one started last.
func ReadAddress(data string) (Address, error) {
	path := latestPath()
	if data != "" {
		path = filepath.Join(data, addressFile)
	}
	a, err := readAddress(path)
	if errors.Is(err, fs.ErrNotExist) {
		return a, errors.New("no demo runs; start one with `hubbub demo`")
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
	// Somebody else's file in a shared folder is not trusted.
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || !ok || int(owner.Uid) != os.Getuid() {
		return a, fmt.Errorf("%s is not a file that only you can read; remove it", path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(raw, &a)
}
