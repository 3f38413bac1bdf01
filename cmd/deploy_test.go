package cmd_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hubbub/bus/bustest"
)

// deployed returns the text of every file below deploy, by path.
func deployed(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := filepath.Join("..", "deploy")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(filepath.ToSlash(path), "../")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	programLine = regexp.MustCompile(`(?m)^(?:\s*- |ExecStart=/usr/bin/)(hubbub-[a-z]+)\b`)
	flagGiven   = regexp.MustCompile(`(?m)(?:^|[ "'=])--([a-z][a-z0-9-]*)`)
)

// TestDeployment_UsesExistingFlags checks every flag in units and manifests.
func TestDeployment_UsesExistingFlags(t *testing.T) {
	seen := 0
	for path, text := range deployed(t) {
		if filepath.Ext(path) != ".service" && filepath.Ext(path) != ".yaml" {
			continue
		}
		start := programLine.FindStringSubmatchIndex(text)
		if start == nil {
			continue
		}
		name := text[start[2]:start[3]]
		help := helpOf(t, name) + helpOf(t, "hubbub-agent")
		for _, m := range flagGiven.FindAllStringSubmatch(text[start[0]:], -1) {
			seen++
			if !strings.Contains(help, "--"+m[1]+" ") {
				t.Errorf("%s gives %s the flag --%s, which it does not have", path, name, m[1])
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d flags were found", seen)
	}
}

// hardening has the options that every unit must have.
var hardening = []string{
	"Type=notify", "WatchdogSec=", "StateDirectory=", "LoadCredential=", "MemoryMax=", "TasksMax=", "UMask=0077",
	"NoNewPrivileges=yes", "CapabilityBoundingSet=\n", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes",
	"RestrictAddressFamilies=", "MemoryDenyWriteExecute=yes", "SystemCallFilter=", "RestartPreventExitStatus=2",
	// Before main, a failure of Go's runtime would exit with 2.
	"Environment=GOTRACEBACK=crash",
}

func TestUnits_AreHardened(t *testing.T) {
	units := 0
	for path, text := range deployed(t) {
		if filepath.Ext(path) != ".service" {
			continue
		}
		units++
		for _, want := range hardening {
			if path == "deploy/systemd/hubbub-bus.service" && want == "LoadCredential=" {
				continue // it has hashes of the other programs' secrets, but none of its own
			}
			if !strings.Contains(text, "\n"+want) {
				t.Errorf("%s lacks %s", path, strings.TrimSpace(want))
			}
		}
		if strings.Contains(text, "\nRequires=") {
			t.Errorf("%s requires another unit: where that one fails at first, systemd would not start this one again", path)
		}
		if !strings.Contains(text, "\nAfter=network-online.target") && path != "deploy/systemd/hubbub-broker.service" {
			t.Errorf("%s listens or dials before the network has its addresses", path)
		}
	}
	if units != 6 {
		t.Errorf("%d units, want 6", units)
	}
}

// TestUnits_CopyNoFileThatIsReadAgain checks that a file which its program reads again, as the help
// of its flag says, is no credential of systemd: that is a copy from the start of the unit.
func TestUnits_CopyNoFileThatIsReadAgain(t *testing.T) {
	credential, seen := regexp.MustCompile(`--([a-z-]+) \$\{CREDENTIALS_DIRECTORY\}`), 0
	for path, text := range deployed(t) {
		if filepath.Ext(path) != ".service" {
			continue
		}
		if regexp.MustCompile(`(?m)^#.*LoadCredential`).MatchString(text) {
			t.Errorf("%s advises a copy, which is not renewed with its file", path)
		}
		for _, m := range credential.FindAllStringSubmatch(text, -1) {
			seen++
			help := strings.Join(strings.Fields(helpOf(t, programLine.FindStringSubmatch(text)[1])), " ")
			_, usage, _ := strings.Cut(help, " --"+m[1]+" ")
			usage, _, _ = strings.Cut(usage, " --")
			if regexp.MustCompile(`\bread (again|at each)\b`).MatchString(usage) {
				t.Errorf("%s gives a copy to --%s: %s", path, m[1], usage)
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d credentials were found", seen)
	}
}

// TestUnits_StartOnceTheirSecretExists checks that what systemd skips for lack of a file starts
// when the file is written later.
func TestUnits_StartOnceTheirSecretExists(t *testing.T) {
	units, seen := deployed(t), 0
	for path, text := range units {
		for _, m := range regexp.MustCompile(`(?m)^ConditionPath\w+=(.*)$`).FindAllStringSubmatch(text, -1) {
			seen++
			waits := strings.TrimSuffix(path, ".service") + ".path"
			if !strings.Contains(units[waits], "\nPathChanged="+m[1]+"\n") {
				t.Errorf("%s is skipped without %s, and no %s waits for that", path, m[1], waits)
			}
			if !regexp.MustCompile(`(?m)^Wants=.*\b` + filepath.Base(waits)).MatchString(text) {
				t.Errorf("%s does not want %s", path, waits)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d conditions, want 2", seen)
	}
}

// TestUnits_AreVerified lets systemd verify the units, if it is installed.
func TestUnits_AreVerified(t *testing.T) {
	if exec.CommandContext(t.Context(), "systemd-analyze", "--version").Run() != nil {
		t.Skip("systemd-analyze is missing")
	}
	for path := range deployed(t) {
		if filepath.Ext(path) != ".service" {
			continue
		}
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold=30", "--no-pager", filepath.Join("..", path)).CombinedOutput()
		if err != nil {
			t.Errorf("%s is more exposed than 3.0 of 10: %v\n%s", path, err, out)
		}
	}
}

// TestManifests_NameTheirFiles checks that the files of the kustomization exist.
func TestManifests_NameTheirFiles(t *testing.T) {
	files := deployed(t)
	m := regexp.MustCompile(`(?m)^resources: \[(.*)\]$`).FindStringSubmatch(files["deploy/kubernetes/kustomization.yaml"])
	if m == nil {
		t.Fatal("the kustomization lists no resources")
	}
	listed := strings.Split(m[1], ", ")
	for path := range files {
		name, ok := strings.CutPrefix(path, "deploy/kubernetes/")
		if ok && filepath.Ext(name) == ".yaml" && name != "kustomization.yaml" && !slices.Contains(listed, name) {
			t.Errorf("%s is not listed", path)
		}
	}
	for _, name := range listed {
		if files["deploy/kubernetes/"+name] == "" {
			t.Errorf("%s is listed and does not exist", name)
		}
	}
}

// TestUninstall_RemovesInstalledFiles installs into a folder, as packagers do, runs the programs,
// and uninstalls. Files of others stay.
func TestUninstall_RemovesInstalledFiles(t *testing.T) {
	t.Parallel()
	dest := t.TempDir()
	script := func(what string) {
		cmd := exec.CommandContext(t.Context(), filepath.Join("..", "scripts", "install"), what, filepath.Dir(built(t, "hubbub")))
		cmd.Env = append(os.Environ(), "DESTDIR="+dest, "PREFIX=/opt")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", what, err, out)
		}
	}
	files := func() (list []string) {
		err := filepath.WalkDir(dest, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				list = append(list, strings.TrimPrefix(path, dest))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	script("install")
	there := files()
	for _, want := range []string{
		"/opt/bin/hubbub", "/opt/bin/hubbub-bus", "/opt/bin/hubbub-agent", "/opt/share/man/man1/hubbub-tg.1",
		"/opt/share/man/man7/hubbub-operating.7", "/opt/share/bash-completion/completions/hubbub",
	} {
		if !slices.Contains(there, want) {
			t.Errorf("%s is missing among %v", want, there)
		}
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(dest, "opt", "bin", "hubbub"), "version").CombinedOutput(); err != nil {
		t.Errorf("what was installed does not run: %v\n%s", err, out)
	}
	other := filepath.Join(dest, "opt", "bin", "hubbub-of-somebody-else")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	script("install") // over the existing installation
	script("uninstall")
	if left := files(); len(left) != 1 || left[0] != "/opt/bin/hubbub-of-somebody-else" {
		t.Errorf("%v is left", left)
	}
}

// TestComposeFile_Runs reads the compose file and the container file, and runs the command with
// the environment and health check of the container.
func TestComposeFile_Runs(t *testing.T) {
	files := deployed(t)
	compose, container := files["deploy/compose.yaml"], files["deploy/Containerfile"]
	one := func(text, pattern string) string {
		m := regexp.MustCompile("(?m)" + pattern).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("there is no %s in\n%s", pattern, text)
		}
		return m[1]
	}
	if built := one(compose, `^ +dockerfile: (\S+)$`); files[built] == "" {
		t.Errorf("it builds %s, which does not exist", built)
	}
	kept := one(container, `^VOLUME (\S+)$`)
	if one(compose, `^ +- data:(\S+)$`) != kept || !strings.Contains(container, "HUBBUB_DATA="+kept+" ") {
		t.Errorf("its volume is not %s, where the programs keep their data", kept)
	}
	inside := one(compose, `^ +HUBBUB_LISTEN: 0\.0\.0\.0:(\d+)$`)
	if port := one(compose, `^ +- "127\.0\.0\.1:(\d+:\d+)"`); port != inside+":"+inside || !strings.Contains(container, "EXPOSE "+inside) {
		t.Errorf("it publishes %s, and the bus listens at %s", port, inside)
	}

	_, port, _ := strings.Cut(bustest.FreeAddress(t), ":")
	data := filepath.Join(t.TempDir(), "data")
	env := []string{"HUBBUB_DATA=" + data, "HUBBUB_BUS=ws://127.0.0.1:" + port}
	flags := helpOf(t, "hubbub-bus") + helpOf(t, "hubbub-tg") + helpOf(t, "hubbub-matrix") + helpOf(t, "hubbub-agent")
	for _, m := range regexp.MustCompile(`(?m)^      ([A-Z_]+):(?: "?([^"\n]*)"?)?$`).FindAllStringSubmatch(compose, -1) {
		if name, ours := strings.CutPrefix(m[1], "HUBBUB_"); ours && !strings.Contains(flags, "--"+strings.ReplaceAll(strings.ToLower(name), "_", "-")+" ") {
			t.Errorf("%s is no setting", m[1])
		}
		env = append(env, m[1]+"="+strings.Replace(m[2], ":"+inside, ":"+port, 1))
	}
	words := func(pattern string) []string { return strings.Split(one(compose, pattern), ", ") }
	system := words(`^    command: \[(hubbub, up.*)\]$`)
	p := &process{t: t, name: system[0], sign: regexp.MustCompile(`all programs run`)}
	p.cmd = exec.CommandContext(context.Background(), built(t, system[0]), system[1:]...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.start(t)
	health := words(`^ +test: \[CMD, (.*)\]$`)
	cmd := exec.CommandContext(t.Context(), built(t, health[0]), health[1:]...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "agent:system") {
		t.Errorf("%q: %v\n%s", health, err, out)
	}
	if !strings.Contains(p.whole(), "[::]:"+port) && !strings.Contains(p.whole(), "0.0.0.0:"+port) {
		t.Errorf("its bus does not listen where the container's port leads:\n%s", p.whole())
	}
	demo := words(`^    command: \[(hubbub, demo.*)\]$`)
	helpOf(t, demo[0], demo[1:]...)
}
