package cmd_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hubbub/bus/bustest"
)

// owner is the user who owns the data folder on which root works.
const owner = 12345

// rootsCommands are the commands that work on the files of a data folder.
var rootsCommands = [][]string{
	{"token", "create", "new", "--identity", "cli:new"},
	{"token", "list"},
	{"token", "revoke", "hubbub-cli"},
	{"token", "provision"},
	{"tail"},
	{"why", "x"},
	{"stats"},
	{"log", "prune", "--before", "1h"},
	{"log", "verify"},
	{"pair"},
	{"outbox", "list"},
	{"reminders"},
	{"chorus", "list"},
	{"peers", "--bus", "ws://127.0.0.1:1"},
	{"doctor"},
}

// hubbubOn runs a command on a data folder and returns its output.
func hubbubOn(t *testing.T, data string, args ...string) (says string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), built(t, "hubbub"), append(args, "--data", data)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// foreignFolder returns a data folder of another user with all files that the commands of root
// open. Root has made it.
func foreignFolder(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can work for others")
	}
	around, err := os.MkdirTemp("", "hubbub-another-") // other users cannot reach the folders of T.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(around) })
	for above := filepath.Dir(around); above != "/"; above = filepath.Dir(above) {
		if info, err := os.Stat(above); err != nil || info.Mode().Perm()&0o001 == 0 {
			t.Skipf("other users cannot reach %s, %v: set TMPDIR to a folder that they can", above, err)
		}
	}
	data := filepath.Join(around, "data")
	if err := errors.Join(os.Chmod(around, 0o755), os.Mkdir(data, 0o700), os.Chown(data, owner, owner)); err != nil {
		t.Fatal(err)
	}
	t.Run("programs", func(t *testing.T) { // they are stopped at its end
		start(t, t, "hubbub-bus", nil, "--data", data, "--listen", bustest.FreeAddress(t), "--log-format", "json")
	})
	for _, args := range [][]string{{"token", "provision"}, {"pair"}, {"chorus", "inbox", "create", "x"}} {
		if says, err := hubbubOn(t, data, args...); err != nil {
			t.Fatalf("%q: %v, %s", args, err, says)
		}
	}
	return data
}

// ownedBy checks that everything in a folder belongs to a user.
func ownedBy(t *testing.T, folder string, uid uint32) (files int) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		files++
		if s := info.Sys().(*syscall.Stat_t); s.Uid != uid {
			t.Errorf("%s belongs to %d", path, s.Uid)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return files
}

// TestRoot_WorksAsOwner checks that root's commands work in another user's folder and leave
// nothing that the owner cannot use.
func TestRoot_WorksAsOwner(t *testing.T) {
	t.Parallel()
	data := foreignFolder(t)
	for _, args := range rootsCommands {
		if says, _ := hubbubOn(t, data, args...); strings.Contains(says, "root") || strings.Contains(says, "permission") {
			t.Errorf("%q: %s", args, says)
		}
	}
	if n := ownedBy(t, data, owner); n < 12 {
		t.Errorf("there are only %d files", n)
	}
	around := filepath.Dir(data)
	to := filepath.Join(around, "backup")
	if says, err := hubbubOn(t, data, "backup", to); err != nil {
		t.Errorf("a backup: %v, %s", err, says)
	} else if n := ownedBy(t, to, owner); n < 9 {
		t.Errorf("there are only %d files in the backup", n)
	}
	closed := filepath.Join(around, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if says, err := hubbubOn(t, data, "backup", filepath.Join(closed, "below", "it")); err == nil {
		t.Errorf("a backup to where nothing is: %v, %s", err, says)
	}
	if says, err := hubbubOn(t, data, "backup", filepath.Join(closed, "it")); err == nil || !strings.Contains(says, "install -d -m 0700 -o 12345") {
		t.Errorf("a backup to where the owner does not come: %v, %s", err, says)
	}
	ownedBy(t, data, owner)
}

// TestRoot_ReachesClosedFolders checks a data folder inside a folder of root that is closed to
// the data's owner, as for a service with a dynamic user.
func TestRoot_ReachesClosedFolders(t *testing.T) {
	t.Parallel()
	data := foreignFolder(t)
	around := filepath.Dir(data)
	private, way := filepath.Join(around, "private"), filepath.Join(around, "way")
	if err := errors.Join(os.Mkdir(private, 0o700), os.Rename(data, filepath.Join(private, "data")), os.Symlink("private/data", way)); err != nil {
		t.Fatal(err)
	}
	if says, err := hubbubOn(t, way, "token", "list"); err != nil && strings.Contains(says, "unshare") {
		t.Skip(says) // root in a container may not
	}
	for _, args := range [][]string{{"token", "create", "new", "--identity", "cli:new"}, {"token", "list"}, {"stats"}, {"backup", filepath.Join(around, "backup")}} {
		if says, err := hubbubOn(t, way, args...); err != nil || args[0] == "token" && !strings.Contains(says, "new") && args[1] == "list" {
			t.Errorf("%q: %v, %s", args, err, says)
		}
	}
	link := filepath.Join(private, "link")
	if err := os.Symlink("data", link); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"/", link}, {private, "data"}, {private, "../way"}, {around, "private/link"}, {link, "."}, {filepath.Join(private, "data"), "../link"}} {
		cmd := exec.CommandContext(t.Context(), built(t, "hubbub"), "token", "list", "--data", c[1])
		cmd.Dir = c[0]
		if says, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(says), "new") {
			t.Errorf("the data folder %s in %s: %v, %s", c[1], c[0], err, says)
		}
	}
	if err := os.Remove(link); err != nil {
		t.Error(err)
	}
	ownedBy(t, filepath.Join(private, "data"), owner)
	if n := ownedBy(t, filepath.Join(around, "backup"), owner); n < 9 {
		t.Errorf("there are only %d files in the backup", n)
	}
	if entries, err := os.ReadDir(private); err != nil || len(entries) != 1 {
		t.Errorf("others see %v, %v", entries, err)
	}
}

// TestRoot_FollowsNoLinks puts a link to root's file, and then a hard link, at each name that
// root's commands open. Each command refuses it and says what to do, and the file does not
// change. Links deeper in the folder are not followed either.
func TestRoot_FollowsNoLinks(t *testing.T) {
	t.Parallel()
	data := foreignFolder(t)
	victim := filepath.Join(filepath.Dir(data), "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := stateOf(t, victim)
	names := []string{"hubbub.sock", "hubbub-bus.lock", "credentials.toml.lock", "system.db-journal", "activity.db.v1.backup", "agents/x.db"}
	for _, pattern := range []string{"*.toml", "*.db", "*.key", "tokens/*"} {
		found, err := filepath.Glob(filepath.Join(data, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		for _, path := range found {
			name, _ := filepath.Rel(data, path)
			if names = append(names, name); filepath.Ext(name) == ".db" {
				names = append(names, name+"-wal", name+"-shm")
			}
		}
	}
	for i, name := range names {
		path := filepath.Join(data, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		os.Rename(path, path+".aside") //nolint:errcheck // it need not be there
		for what, plant := range map[string]func(string, string) error{"a link": os.Symlink, "another name for a file of root": os.Link} {
			if err := errors.Join(plant(victim, path), os.Lchown(filepath.Dir(path), owner, owner)); err != nil {
				t.Fatal(err)
			}
			commands := rootsCommands
			if i > 0 { // all commands with the first name, then in turn
				commands = rootsCommands[i%len(rootsCommands):][:1]
			}
			for _, args := range commands {
				says, err := hubbubOn(t, data, args...)
				if planted := path + " is " + what; name != "agents/x.db" && (err == nil || !strings.Contains(says, planted) || !strings.Contains(says, "remove it")) {
					t.Errorf("%q where %s: %v, %s", args, planted, err, says)
				}
			}
			if now := stateOf(t, victim); now != before {
				t.Fatalf("%s as %s: root's file was %+v, and is %+v", name, what, before, now)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		os.Rename(path+".aside", path) //nolint:errcheck // as above
	}
}

// A fileState is the state of a file that must not change.
type fileState struct {
	content  string
	mode     fs.FileMode
	uid, gid uint32
	changed  int64
}

func stateOf(t *testing.T, path string) fileState {
	t.Helper()
	content, err := os.ReadFile(path)
	info, err2 := os.Stat(path)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	s := info.Sys().(*syscall.Stat_t)
	return fileState{string(content), info.Mode(), s.Uid, s.Gid, info.ModTime().UnixNano()}
}
