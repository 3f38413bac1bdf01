package program

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAttached_KnowsTheDataFolderOfItsOwnFile runs a command that reads the file of --config itself.
// Its data folder, and so the user that it acts as, is that of the file from the beginning.
func TestAttached_KnowsTheDataFolderOfItsOwnFile(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	const settings = "data = '/from/file'\nnobodys = 1\n[bus]\nlisten = 'x'"
	for name, c := range map[string]struct {
		file string // content; none: there is no file
		args []string
		env  map[string]string
		code int
		want string // the folder, or what is reported
	}{
		"file":                {settings, nil, nil, 0, "/from/file"},
		"file over a default": {settings, nil, map[string]string{"HOME": "/home/x"}, 0, "/from/file"},
		"flag":                {settings, []string{"--data", "/from/flag"}, nil, 0, "/from/flag"},
		"variable":            {settings, nil, map[string]string{"HUBBUB_DATA": "/from/variable"}, 0, "/from/variable"},
		"default":             {"nobodys = 1", nil, map[string]string{"HOME": "/home/x"}, 0, "/home/x/.local/share/hubbub"},
		"nowhere":             {"nobodys = 1", nil, nil, 2, "say where with --data"},
		"no text":             {"data = 7", nil, nil, 2, "data must name a folder"},
		"no path":             {"data = ''", nil, nil, 2, "data must name a folder"},
		"not TOML":            {"data = = 2", nil, nil, 2, "line 1"},
		"no file":             {"", nil, nil, 1, absent},
	} {
		t.Run(name, func(t *testing.T) {
			file := absent
			if c.file != "" {
				file = write(t, c.file)
			}
			var stdout, stderr bytes.Buffer
			a := tree(func(env *Env) error {
				fmt.Fprint(&stdout, env.Data)
				if err := os.Remove(file); err != nil { // like a pipe, it can be read only once
					t.Error(err)
				}
				if content, err := env.ReadConfig(); err != nil || content["nobodys"] == nil {
					t.Errorf("the file: %v, %v", content, err)
				}
				return nil
			})
			one, _, err := a.root.Find([]string{"one"})
			if err != nil {
				t.Fatal(err)
			}
			one.Annotations = map[string]string{OwnConfig: "yes"}
			args := append([]string{"one", "x", "--config", file}, c.args...)
			code := a.execute(t.Context(), call{args: args, env: c.env}.process(&stdout, &stderr))
			got := stdout.String()
			if code != c.code || code == 0 && got != c.want || code != 0 && !strings.Contains(stderr.String(), c.want) {
				t.Errorf("exit %d, folder %q, stderr %q; want %d and %q", code, got, stderr.String(), c.code, c.want)
			}
		})
	}
}
