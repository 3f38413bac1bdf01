package datafolder

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestMain makes this program act as a program of root that works on a folder, if it is
// started as one.
func TestMain(m *testing.M) {
	if path := os.Getenv("TEST_ACT"); path != "" {
		err := ActAsOwner(path)
		if err == nil {
			err = MkdirAll(filepath.Join(path, "made"))
		}
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// act makes root work on a folder, and returns the refusal.
func act(t *testing.T, path string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"TEST_ACT=" + path}
	out, err := cmd.CombinedOutput()
	if (err != nil) != (len(out) > 0) {
		t.Errorf("%v, %s", err, out)
	}
	return string(out)
}

const stranger = 12345

// rooms returns a folder owned by root, and one in it owned by a stranger.
func rooms(t *testing.T) (roots, strangers string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can act for others")
	}
	roots, err := os.MkdirTemp("", "datafolder-") // the folders of T.TempDir are closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(roots) })
	strangers = filepath.Join(roots, "strangers")
	must(t, errors.Join(os.Chmod(roots, 0o755), os.Mkdir(strangers, 0o700), os.Chown(strangers, stranger, stranger)))
	return roots, strangers
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func owner(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	return int(ownerOf(info))
}

// TestActAsOwner_SwitchesUser also covers a folder that does not exist yet, however it is
// named.
func TestActAsOwner_SwitchesUser(t *testing.T) {
	roots, strangers := rooms(t)
	must(t, os.Mkdir(filepath.Join(roots, "lib"), 0o755))
	way := filepath.Join(roots, "lib", "way")
	must(t, os.Symlink("../strangers", way)) // as systemd makes /var/lib/NAME
	for path, want := range map[string]int{
		roots: 0, strangers: stranger, filepath.Join(way, "below"): stranger, filepath.Join(roots, "new"): 0, filepath.Join(strangers, "a", "b"): stranger,
	} {
		if says := act(t, path); says != "" {
			t.Errorf("%s: %s", path, says)
		} else if got := owner(t, filepath.Join(path, "made")); got != want {
			t.Errorf("what root made in %s belongs to %d; want %d", path, got, want)
		}
	}
}

// TestActAsOwner_FollowsNoPlantedLink plants links on the way to a folder and among its
// files.
func TestActAsOwner_FollowsNoPlantedLink(t *testing.T) {
	roots, strangers := rooms(t)
	victim := filepath.Join(roots, "victim")
	must(t, os.WriteFile(victim, []byte("root's"), 0o600))
	plant := func(path string) string {
		must(t, errors.Join(os.Symlink(roots, path), os.Lchown(path, stranger, stranger)))
		return path
	}
	refused := func(path, why string) {
		t.Helper()
		if says := act(t, path); !strings.Contains(says, why) {
			t.Errorf("%s: %q; want %s", path, says, why)
		}
	}
	way := plant(filepath.Join(strangers, "way"))
	refused(way, way+" is a link of #12345")
	refused(filepath.Join(way, "strangers"), way+" is a link of #12345")
	long := filepath.Join(roots, "long")
	must(t, os.Symlink("strangers/way", long)) // root's own link to the stranger's
	refused(long, way+" is a link of #12345")
	refused(strangers, way+" is a link, which")
	must(t, os.Remove(way))
	tokens := filepath.Join(strangers, "tokens")
	must(t, errors.Join(os.Mkdir(tokens, 0o755), os.Chown(tokens, stranger, stranger)))
	deep := plant(filepath.Join(tokens, "cli"))
	refused(strangers, deep+" is a link, which")
	must(t, os.Remove(deep))
	must(t, os.Link(victim, deep))
	refused(strangers, deep+" is another name for a file of root, which")
	must(t, os.Remove(deep))
	must(t, errors.Join(syscall.Mkfifo(filepath.Join(strangers, "fifo"), 0o600)))
	refused(strangers, "fifo is a pipe or a device")
	must(t, errors.Join(os.Remove(long), os.Chmod(roots, 0o777)))
	refused(roots, "run chmod o-w on it")
}

// TestActAsOwner_JudgesLinksBeforeItFollowsThem names, below a link, a path that can only be
// seen through it. The refusal must be about the link.
func TestActAsOwner_JudgesLinksBeforeItFollowsThem(t *testing.T) {
	roots, strangers := rooms(t)
	in := func(name ...string) string { return filepath.Join(append([]string{roots}, name...)...) }
	must(t, errors.Join(os.Mkdir(in("secret"), 0o700), os.Mkdir(in("lib"), 0o755), os.Mkdir(in("lib", "far"), 0o755),
		syscall.Mkfifo(in("secret", "fifo"), 0o600)))
	for path, to := range map[string]string{
		in("secret", "inner"): strangers, in("strangers", "tokens"): in("secret"), in("strangers", "way"): "../secret",
	} {
		must(t, errors.Join(os.Symlink(to, path), os.Lchown(path, stranger, stranger)))
	}
	for path, to := range map[string]string{
		in("near"): "lib/far", in("loop"): "pool", in("pool"): "loop", in("self"): "self/x", in("long"): "strangers/way",
	} {
		must(t, os.Symlink(to, path))
	}
	for path, want := range map[string]string{
		strangers:                            " is a link, which",
		in("strangers", "way", "inner"):      in("strangers", "way") + " is a link of",
		in("strangers", "way", "inner", "x"): in("strangers", "way") + " is a link of",
		in("strangers", "way", "none", "x"):  in("strangers", "way") + " is a link of",
		in("long", "inner", "x"):             in("strangers", "way") + " is a link of",
		in("loop", "x"):                      "too many levels",
		in("self"):                           "too many levels",
		in("near", "new"):                    "",
	} {
		switch says := act(t, path); {
		case want == "" && says != "", !strings.Contains(says, want):
			t.Errorf("%s: %q; want %q", path, says, want)
		case strings.Contains(says, "inner is"), strings.Contains(says, "fifo"):
			t.Errorf("%s was read through a link: %q", path, says)
		}
	}
}

// TestLock_FollowsNoLink plants links where a program locks a file.
func TestLock_FollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	for name, to := range map[string]string{"to a file": "treasure", "to nothing": "none"} {
		path := filepath.Join(dir, name)
		must(t, errors.Join(os.WriteFile(filepath.Join(dir, "treasure"), nil, 0o600), os.Symlink(to, path)))
		if f, err := Lock(path, true); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("a link %s was locked: %v, %v", name, f, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "none")); err == nil {
		t.Error("a file was made through a link")
	}
	path := filepath.Join(dir, "lock")
	f, err := Lock(path, false)
	must(t, err)
	defer f.Close()
	if _, err := Lock(path, false); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("a second lock: %v", err)
	}
}

// TestPowerCut_LosesNothing checks that the folder of every new or renamed file
// is synced afterwards, and that a failed sync is reported.
func TestPowerCut_LosesNothing(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	before := syncFolder
	t.Cleanup(func() { syncFolder = before })
	must(t, os.WriteFile(in("old"), nil, 0o600))
	for _, c := range []struct {
		what  string
		do    func() error
		makes string // what must be there when its folder is synced
		syncs []string
	}{
		{"a file", func() error { return WriteFile(in("file"), []byte("x")) }, "file", []string{"."}},
		{"a first file", func() error { return WriteNew(in("first"), []byte("x")) }, "first", []string{"."}},
		{"an empty file", func() error { return Create(in("empty")) }, "empty", []string{"."}},
		{"an empty file that is there", func() error { return Create(in("empty")) }, "empty", []string{"."}},
		{"a new name", func() error { return Rename(in("old"), in("new")) }, "new", []string{"."}},
		{"a folder", func() error { return Mkdir(in("a")) }, "a", []string{"."}},
		{"folders", func() error { return MkdirAll(in("a/b/c")) }, "a", []string{".", "a", "a/b"}},
		{"folders that are there", func() error { return MkdirAll(in("a/b/c")) }, "a/b/c", []string{"a/b"}},
	} {
		var synced []string
		syncFolder = func(folder string) error {
			if _, err := os.Lstat(in(c.makes)); err != nil {
				t.Errorf("%s: synced before", c.what)
			}
			rel, err := filepath.Rel(dir, folder)
			synced = append(synced, rel)
			return errors.Join(err, before(folder))
		}
		if err := c.do(); err != nil || !slices.Equal(synced, c.syncs) {
			t.Errorf("%s: synced %v, %v", c.what, synced, err)
		}
		failed := errors.New("no sync")
		syncFolder = func(string) error { return failed }
		if err := c.do(); err == nil {
			t.Errorf("%s: a sync that failed: %v", c.what, err)
		}
	}
	syncFolder = before
	if err := MkdirAll(in("file/below")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a folder below a file: %v", err)
	}
}
