package segment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// A keptTree is the header of a file with the leaves of a removed file.
type keptTree struct {
	Log   string `json:"log"`
	Size  int64  `json:"size"` // of the tree before the leaves
	First int64  `json:"first"`
	Last  int64  `json:"last"`
}

// KeptTreePath returns the path of the file for the leaves of a sealed file.
func KeptTreePath(segment string) string { return strings.TrimSuffix(segment, ".db") + KeptTreeSuffix }

// KeptTreeSuffix ends the name of a file with leaves.
const KeptTreeSuffix = ".tree"

// KeptTree returns the content of the file that keeps the leaves of this one. It is nil if this
// file has no leaves.
func (v *View) KeptTree() ([]byte, error) {
	start, first, ok := v.TreeStart()
	if !ok {
		return nil, v.Err
	}
	place, _, _ := v.LastRun()
	var leaves []byte
	v.Commits(first, func(c *Commit) { leaves = append(leaves, c.Leaves...) })
	head, err := json.Marshal(keptTree{place.Log, start.Size, first, v.LastID()})
	return append(append(head, '\n'), leaves...), errors.Join(err, v.Err)
}

// ReadKeptTree reads a file with leaves.
func ReadKeptTree(path string) (k keptTree, leaves []byte, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return k, nil, err
	}
	head, leaves, _ := bytes.Cut(content, []byte("\n"))
	if err := json.Unmarshal(head, &k); err != nil || len(leaves)%tlog.HashSize != 0 {
		return k, nil, fmt.Errorf("%s does not contain the hashes of a file of the log", path)
	}
	return k, leaves, nil
}

// KeptTrees lists the files with leaves of removed files, in order.
func KeptTrees(path string) []string {
	names := FilesBeside(strings.TrimSuffix(path, ".db") + "-")
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, KeptTreeSuffix) })
}
