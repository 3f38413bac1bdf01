package cmd_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A manifest is the file of one program for Kubernetes.
type manifest struct {
	path, text string
}

// manifests returns the files that start programs, by program.
func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	list := map[string]manifest{}
	for path, text := range deployed(t) {
		if strings.HasPrefix(path, "deploy/kubernetes/") && strings.Contains(text, "\nkind: StatefulSet\n") {
			list[programLine.FindStringSubmatch(text)[1]] = manifest{path, text}
		}
	}
	return list
}

// all returns the first group of every match of a pattern.
func (m manifest) all(pattern string) (list []string) {
	for _, match := range regexp.MustCompile("(?m)"+pattern).FindAllStringSubmatch(m.text, -1) {
		list = append(list, match[1])
	}
	return list
}

// stopsWithin is how long the stop of each program takes at most, in seconds. A slow disk
// extends that of the bus, which tells systemd and cannot tell a container's runtime.
func stopsWithin(program string) int {
	if program == "hubbub-bus" {
		return 90
	}
	return 15
}

// TestManifests_GiveProgramsWhatTheyNeed checks user, root, folders, secrets, ports and the time to
// stop of every program.
func TestManifests_GiveProgramsWhatTheyNeed(t *testing.T) {
	user := regexp.MustCompile(`(?m)^USER (\d+):`).FindStringSubmatch(deployed(t)["deploy/Containerfile"])[1]
	readme := deployed(t)["deploy/kubernetes/README.md"]
	tokens := regexp.MustCompile(`for name in ([a-z ]+);`).FindStringSubmatch(readme)
	found := manifests(t)
	for _, program := range []string{"hubbub-bus", "hubbub-system", "hubbub-broker", "hubbub-tg", "hubbub-matrix"} {
		m, ok := found[program]
		if !ok {
			t.Errorf("%s has no manifest", program)
			continue
		}
		containers := len(m.all(`^ +(image): hubbub$`))
		for _, want := range []string{`allowPrivilegeEscalation: (false)`, `readOnlyRootFilesystem: (true)`, `drop: (\[ALL\])`, `mountPath: (/data)`} {
			if n := len(m.all(`^ +` + want + `$`)); n != containers {
				t.Errorf("%s: %d of %d containers have %s", m.path, n, containers, want)
			}
		}
		for _, want := range []string{`runAsNonRoot: (true)`, `runAsUser: (` + user + `)`, `fsGroup: (` + user + `)`, `mountPath: (/tmp)`, `emptyDir: ({})`} {
			if len(m.all(`^ +`+want+`$`)) != 1 {
				t.Errorf("%s has not one %s", m.path, want)
			}
		}
		grace := m.all(`^ +terminationGracePeriodSeconds: (\d+)\b`)
		if seconds, _ := strconv.Atoi(strings.Join(grace, "")); seconds < stopsWithin(program) { //nolint:errcheck // 0 is too short
			t.Errorf("%s is killed after %v s; its stop may take %d", m.path, grace, stopsWithin(program))
		}
		for _, key := range m.all(`^ +- key: ([a-z]+)$`) {
			if tokens == nil || !slices.Contains(strings.Fields(tokens[1]), key) {
				t.Errorf("%s wants the token %q, which README.md does not make", m.path, key)
			}
		}
		for _, secret := range m.all(`^ +secretName: (\S+)$`) {
			if !strings.Contains(readme, "secret generic "+secret+" ") {
				t.Errorf("%s wants the secret %s, which README.md does not create", m.path, secret)
			}
		}
		m.checkFiles(t)
		m.checkPorts(t)
		help := helpOf(t, program)
		for _, name := range m.all(`^ +- name: ([A-Z_]+)$`) {
			if !strings.Contains(help, name) && !strings.Contains(help, strings.TrimSuffix(name, "_FILE")) {
				t.Errorf("%s sets %s, which %s does not read", m.path, name, program)
			}
		}
	}
}

// checkFiles checks that each file that the program is configured to read, and its data, is on a
// volume.
func (m manifest) checkFiles(t *testing.T) {
	t.Helper()
	mounts := m.all(`^ +mountPath: (\S+)$`)
	for _, file := range m.all(`(?:=|value: |[ ,])(/(?:run|data|tmp|etc)[^\s,\]]*)`) {
		if !slices.ContainsFunc(mounts, func(mount string) bool { return file == mount || strings.HasPrefix(file, mount+"/") }) {
			t.Errorf("%s: %s is on no volume", m.path, file)
		}
	}
	_, volumes, _ := strings.Cut(m.text, "\n      volumes:\n")
	for _, name := range m.all(`^            - name: (\S+)\n              mountPath:`) {
		if !regexp.MustCompile(`(?m)^ +(?:- )?name: ` + name + `$`).MatchString(volumes) {
			t.Errorf("%s: the volume %s is not declared", m.path, name)
		}
	}
}

// checkPorts checks that a service and the network policy lead to the port where the program listens,
// and that URLs name the service of its program.
func (m manifest) checkPorts(t *testing.T) {
	t.Helper()
	policies := deployed(t)["deploy/kubernetes/network.yaml"]
	listens := m.all(`--(?:files-)?listen=0\.0\.0\.0:(\d+)$`)
	if ports := m.all(`^      port: (\d+)$`); !slices.Equal(ports, listens) {
		t.Errorf("%s: the service has the ports %v, and the program listens at %v", m.path, ports, listens)
	}
	for _, port := range listens {
		if !strings.Contains(policies, "- port: "+port+"\n") {
			t.Errorf("%s: the network policies admit nobody to port %s", m.path, port)
		}
	}
	for _, address := range m.all(`--(?:bus|files-url)=[a-z]+://(hubbub-[a-z]+:\d+)$`) {
		host, port, _ := strings.Cut(address, ":")
		service := manifests(t)[host].text
		if !strings.Contains(service, "kind: Service\nmetadata:\n  name: "+host+"\n") || !strings.Contains(service, ":"+port+"\n") {
			t.Errorf("%s: no service has the address %s", m.path, address)
		}
	}
	if agents := manifests(t)["hubbub-system"]; len(m.all(`--files-url=(http:)`)) > 0 && len(agents.all(`--agent-arg=--allow-target=(\S+)$`)) == 0 {
		t.Errorf("%s: the agents of %s may not fetch its files from a private address", m.path, agents.path)
	}
}

// TestComposeFile_GivesProgramsWhatTheyNeed checks every service of the compose file.
func TestComposeFile_GivesProgramsWhatTheyNeed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "deploy", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, services, _ := strings.Cut(string(text), "\nservices:\n")
	services, _, _ = strings.Cut(services, "\nvolumes:\n")
	for _, service := range regexp.MustCompile(`(?m)^  [a-z]+:$`).Split(services, -1)[1:] {
		for _, want := range []string{"\n    read_only: true\n", "\n    tmpfs: /tmp\n", "\n    stop_grace_period: 90s", "\n    cap_drop: [ALL]\n", "\n    security_opt: [\"no-new-privileges:true\"]\n"} {
			if !strings.Contains(service, want) {
				t.Errorf("a service lacks %s:\n%s", strings.TrimSpace(want), service)
			}
		}
	}
}
