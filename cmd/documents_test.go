package cmd_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/cmd/internal/documentstest"
	"hubbub/docs"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/tg/tgtest"

	"github.com/go-telegram/bot/models"
	"github.com/nats-io/nats-server/v2/server"
)

// A handling says how the test runs a command of the documents.
type handling struct {
	says   string          // pattern of its output; for a command that stays, when it is ready
	serves bool            // runs until the next command that serves: the system, or a bus
	stays  bool            // runs beside the command that serves, until that ends
	on     string          // the command that must be serving; "" for any
	first  func(r *reader) // runs before the command
	with   []string        // arguments that shorten it
	env    []string        // in addition to the reader's
	named  bool            // only mentioned; the test checks its help

	// For commands that cannot run here: the reason, and the file of the check that runs it, with
	// a text in it.
	elsewhere, file, text string
}

const (
	plainSystem = "hubbub up"
	wholeSystem = "hubbub up --config hubbub.toml"
	openBus     = "hubbub-bus --data play"
)

// handlings has every command of README.md and docs.
var handlings = map[string]handling{
	// Make.
	"make demo":            {elsewhere: "it is hubbub demo, after make build", file: "scripts/brief", text: "make demo"},
	"make build":           {elsewhere: "it is scripts/build, as for make demo", file: ".ci/run", text: "make test"},
	"make install":         {elsewhere: "it runs into a folder of a test", file: "cmd/deploy_test.go", text: `"scripts", "install"`},
	"make check":           {elsewhere: "it runs all tests again", file: ".ci/run", text: "make check"},
	"make test":            {elsewhere: "it runs the other tests", file: ".ci/run", text: "make test"},
	"make bench":           {elsewhere: "minutes; for a moment in CI", file: "scripts/brief", text: "make bench"},
	"make fuzz":            {elsewhere: "a minute for each parser; a moment in CI", file: "scripts/brief", text: "make fuzz"},
	"make mutate":          {elsewhere: "half an hour; two mutants in CI", file: "scripts/brief", text: "make mutate"},
	"make chaos":           {elsewhere: "twenty minutes; for a moment in CI", file: "scripts/brief", text: "make chaos"},
	"make soak":            {elsewhere: "minutes; for a moment in CI", file: "scripts/brief", text: "make soak"},
	"make test-console":    {elsewhere: "it wants chromium and npm, which .ci/run gets", file: ".ci/run", text: "scripts/test-console.sh"},
	"make mcp-conformance": {elsewhere: "a suite from npm", file: "Makefile", text: "scripts/mcp-conformance.sh"},
	"make test-models":     {elsewhere: "a C++ compiler, and minutes", file: "Makefile", text: "scripts/test-models"},
	"make test-agents":     {elsewhere: "a gigabyte from npm, and half an hour", file: "Makefile", text: "scripts/test-agents"},
	"make test-a2a":        {elsewhere: "an SDK from npm", file: "Makefile", text: "scripts/test-a2a"},
	"make test-hooks":      {elsewhere: "libraries from npm", file: "Makefile", text: "scripts/test-hooks"},
	"make test-chorus":     {elsewhere: "TestChorusChannel_ExchangeOfTwoAgentsEnds and its like, which the suite runs", file: "Makefile", text: "scripts/test-chorus"},
	"make test-matrix":     {elsewhere: "a homeserver that builds for minutes", file: "Makefile", text: "scripts/test-matrix"},
	"make encryption":      {elsewhere: "hubbub-matrix with it", file: "scripts/test-matrix", text: "-tags=goolm"},
	"make test-emulator":   {elsewhere: "a server from npm", file: "Makefile", text: "scripts/test-emulator"},
	"make test-slow-disk":  {elsewhere: "root, and minutes", file: "Makefile", text: "scripts/test-slow-disk"},
	"make test-read-only":  {elsewhere: "root", file: "Makefile", text: "scripts/test-read-only"},
	"make test-proxy":      {elsewhere: "programs of others", file: "Makefile", text: "scripts/test-proxy"},
	"make test-partition":  {elsewhere: "root, and minutes", file: "Makefile", text: "scripts/test-partition"},
	"make package":         {elsewhere: "minutes", file: "scripts/brief", text: "make package"},

	"hubbub new peer":                         {elsewhere: "each language, on a bus that restarts", file: "cmd/newpeer_test.go", text: `"new", "peer", "--lang"`},
	"hubbub new c2a":                          {elsewhere: "it passes the kit", file: "cmd/hubbub/internal/newpeer/newpeer_test.go", text: `"c2a"`},
	"hubbub new peer --lang ts|py|go|sh NAME": {elsewhere: "each language, on a bus that restarts", file: "cmd/newpeer_test.go", text: `"new", "peer", "--lang"`},
	"hubbub chat agent:echo hello":            {elsewhere: "with each peer", file: "cmd/readme_test.go", text: `"chat", "agent:echo"`},
	"hubbub token create echo --identity agent:echo --subscribe agent:echo --publish cli:* --publish tg:*": {
		elsewhere: "each peer has it", file: "cmd/readme_test.go", text: "token create echo",
	},
	`hubbub pub tg:12345 --type route_assigned --content {"agent":"agent:echo"}`: {
		elsewhere: "an agent is given a group", file: "cmd/agentfirst_test.go", text: `"--type", "route_assigned", "--content"`,
	},

	// Commands that serve.
	plainSystem:  {says: `"all programs run;`, serves: true},
	wholeSystem:  {says: `"all programs run;`, serves: true},
	openBus:      {says: `"message":"ready"`, serves: true},
	"hubbub-bus": {says: `"message":"ready"`, serves: true},
	"hubbub-bus --cluster nats://...": {
		says: `"message":"ready"`, serves: true, first: (*reader).startNATS,
	},
	"hubbub-matrix --homeserver https://example.org --allow-user @me:example.org": {
		elsewhere: "a homeserver", file: "cmd/matrix_test.go", text: `"--allow-user", "@will:hs.test"`,
	},
	"hubbub-matrix --homeserver https://example.org --encryption": {
		elsewhere: "a homeserver", file: "cmd/matrixkeys_test.go", text: `m.args = true, []string{"--encryption"}`,
	},
	"hubbub-chorus --public-url https://chat.example.com": {
		says: `"message":"ready"`, stays: true, on: plainSystem, env: []string{"HUBBUB_LISTEN=127.0.0.1:0"},
	},

	// Commands that show something.
	"hubbub tail --data play --follow":         {says: `send_start tg_message tg:42 agent:echo`, stays: true, on: openBus},
	"hubbub trace ID":                          {says: `attention_decision agent:tg-\S+ .* decided: to_me, must_respond`, on: wholeSystem},
	"hubbub trace MESSAGE":                     {says: `^msg_\S+  tg_message  tg:“Will” → agent:tg-\S+$`, on: wholeSystem},
	"hubbub trace --data play MESSAGE":         {says: `^msg_\S+  tg_message  tg:42 → agent:echo$`, on: openBus},
	"hubbub trace":                             {named: true},
	"hubbub chat":                              {named: true},
	"hubbub resume AGENT --budget":             {named: true},
	"hubbub decisions":                         {named: true},
	"hubbub chorus add":                        {named: true},
	"hubbub chorus assign":                     {named: true},
	"hubbub why":                               {named: true},
	"hubbub conformance broker --show":         {named: true},
	"hubbub resume":                            {named: true},
	"hubbub conversation show tg:-100123":      {named: true},
	"hubbub say":                               {named: true},
	"hubbub owe":                               {named: true},
	"hubbub owe WHO":                           {named: true},
	"hubbub blocking WHO":                      {named: true},
	"hubbub ask NAME QUESTION --blocks halted": {named: true},
	"hubbub owe close EVENT":                   {named: true},
	"hubbub halt":                              {named: true},
	"hubbub halt tg:42":                        {named: true},
	"hubbub halt agent:lead":                   {named: true},
	"hubbub resume agent:lead --budget":        {named: true},
	"hubbub why EVENT":                         {says: `agent:tg-12345 \(“Will”\) was woken`, on: wholeSystem},
	"hubbub why wi_01J...":                     {says: `created: open, owner name`, on: wholeSystem, first: (*reader).giveWork},
	"hubbub stats":                             {says: `agent:tg-12345 .*: .*[1-9]\d* responded`, on: wholeSystem},
	"hubbub stats --spent":                     {says: `agent:tg-12345 .*tg:12345`, on: wholeSystem},
	"hubbub chat --start helper":               {says: `\S`, on: wholeSystem, with: []string{"hello"}},
	"hubbub console":                           {says: `^http://127\.0\.0\.1:\d+/console/enter/`, on: wholeSystem},
	"hubbub top":                               {says: `messages/s`, on: wholeSystem},
	"hubbub peers":                             {says: `(?s)agent:system.*tg:`, on: wholeSystem},
	"hubbub who":                               {says: `\S`, on: wholeSystem},
	"hubbub doctor --config hubbub.toml":       {says: `ok +bus: `, on: wholeSystem},
	"hubbub tail --text deploy":                {says: `tg_message`, on: wholeSystem},
	"hubbub doctor":                            {says: `ok +bus: `, on: wholeSystem},
	"hubbub reminders":                         {says: `no agent has set a reminder|r-`, on: wholeSystem},
	"hubbub outbox list":                       {says: `no item waits|pending|sending|dead`, on: wholeSystem},
	"hubbub log sql SELECT event, count(*) FROM activity_log GROUP BY event": {says: `^event`},
	"hubbub log verify":                                        {says: `the log is intact: [1-9]`},
	"hubbub log key":                                           {says: `^hubbub/[A-Z0-9]+\+`},
	"hubbub log prove MESSAGE":                                 {says: `^c2sp.org/tlog-proof@v1`, on: wholeSystem, first: (*reader).awaitCheckpoint},
	"hubbub log export --help":                                 {says: `--since`},
	"hubbub log prune --before 30d":                            {says: `^0 rows`},
	"hubbub backup FOLDER":                                     {says: `^[1-9]\d* files copied`},
	"hubbub tail --type tg_message":                            {says: `tg_message`, on: wholeSystem},
	"hubbub tail --event rejected --since 1h":                  {says: `rejected .* does not grant`, on: wholeSystem, first: (*reader).sendForbidden},
	"hubbub peers --data /var/lib/hubbub-bus":                  {says: `agent:system`, on: wholeSystem},
	"hubbub tail --data /var/lib/hubbub-bus":                   {says: `send_finish`, on: wholeSystem},
	"hubbub pair --data /var/lib/hubbub-tg":                    {says: `/pair [A-Z2-9]{4}-[A-Z2-9]{4}`, on: wholeSystem},
	"hubbub chorus list --data /var/lib/hubbub-chorus":         {says: `reviewer`, on: wholeSystem},
	"hubbub pair":                                              {says: `/pair [A-Z2-9]{4}-[A-Z2-9]{4}`, on: wholeSystem},
	"hubbub sub agent:* cli:*":                                 {says: `watching agent:\*, cli:\*`, stays: true, on: openBus},
	"hubbub sub tg:*":                                          {says: `watching tg:\*`, stays: true, on: openBus},
	"hubbub pub agent:echo --type tg_message --as tg:42 hello": {says: `^msg_\S+ `, on: openBus},

	// External agents.
	"hubbub chorus add reviewer --connection-string-file reviewer.txt": {says: `agent:reviewer`},
	"hubbub chorus assign reviewer tg:12345":                           {says: `^agent:reviewer now receives the messages of tg:12345`},
	"hubbub chorus inbox create NAME":                                  {says: `/inbox/sk_`, on: wholeSystem},
	"hubbub chorus inbox rotate NAME":                                  {says: `/inbox/sk_`, on: wholeSystem},
	"hubbub hook add NAME --chat tg:1":                                 {says: `/hook/name\nwhsec_`, on: wholeSystem},
	"hubbub hook add build-42 --arrives":                               {says: `/hook/build-42\nwhsec_`, on: wholeSystem},

	// Credentials.
	"hubbub token create NAME --identity P --subscribe P --publish P": {says: `^\S{40,}$`, first: (*reader).revokeName},
	"hubbub token create NAME --identity P":                           {says: `^\S{40,}$`, first: (*reader).revokeName},
	"hubbub token list":                                               {says: `hubbub-tg`},
	"hubbub token revoke NAME":                                        {says: `is revoked: its sessions end`},
	"hubbub token revoke NAME --with-issued":                          {says: `is revoked: its sessions end`, first: (*reader).createName},

	// Texts and checks.
	"hubbub help TOPIC":                                {elsewhere: "each page, with its width", file: "cmd/hubbub/helptopics_test.go", text: "topicText("},
	"hubbub help":                                      {says: `Operate:`},
	"hubbub help limits":                               {says: `--peer-window`},
	"hubbub help broker":                               {says: `work_item.create`},
	"hubbub config sample":                             {says: `\[tg\]`},
	"hubbub config sample --services":                  {says: `\[tg\]`},
	"hubbub config check --config hubbub.toml":         {says: `no errors`},
	"hubbub bench --help":                              {says: `--scale`},
	"hubbub bench chat":                                {says: `CPU ms/message`, with: []string{"--messages", "2"}},
	"hubbub bench --bus URL":                           {says: `unicast, depth 64`, on: openBus, with: []string{"--scale", "0.001", "--repeat", "1", "--only", "unicast"}},
	"hubbub conformance bus --bus ws://127.0.0.1:7892": {says: `[1-9]\d+ passed, 0 failed`, on: openBus, with: []string{"--in-use"}},
	"hubbub conformance chorus":                        {named: true},
	"hubbub conformance c2a-host":                      {named: true},
	"hubbub conformance c2a --harness-command COMMAND": {
		says: `[1-9]\d+ passed, 0 failed`, first: (*reader).useScriptedHarness, with: []string{"--quiet", "30ms"},
	},
}

// awaitCheckpoint waits until the bus has signed the rows of the message.
func (r *reader) awaitCheckpoint() {
	r.until(`tlog-proof`, "hubbub", "log", "prove", "--json", r.values["MESSAGE"])
}

// TestDocumentedCommands_Run runs the commands of README.md and docs in order, as a reader with
// the programs, a bot and a chat would: with the real programs and a test server of the Bot API.
func TestDocumentedCommands_Run(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	used := map[string]bool{}
	pages := []string{"README.md"}
	for _, topic := range docs.Topics() { // in the order of hubbub help
		pages = append(pages, "docs/"+topic.File())
	}
	for _, where := range pages {
		seen := map[string]bool{} // a repeated command of a document runs once
		for _, c := range documentstest.Find(where, readDocument(t, where)) {
			h, listed := handlings[c.String()]
			if programLine := strings.HasPrefix(c.Words[0], "hubbub") || c.Words[0] == "make"; !programLine || strings.HasPrefix(c.Words[0], "hubbub_") {
				continue // TestDocuments_CommandsExist checks the others
			}
			if !listed {
				t.Errorf("%s shows %q: list it in this test, with what it prints", where, c)
				continue
			}
			used[c.String()] = true
			if !seen[c.String()] {
				seen[c.String()] = true
				r.follow(c, &h)
			}
		}
	}
	for line := range handlings {
		if !used[line] {
			t.Errorf("no document shows %q", line)
		}
	}
}

func readDocument(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A reader follows documents in a folder of its own.
type reader struct {
	t       *testing.T
	dir     string
	data    string
	env     []string
	values  map[string]string // values of placeholders
	api     *tgtest.Server
	serving string     // the command that serves
	stay    []*process // what runs: the command that serves, and those that stay beside it
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir(), api: tgtest.New(nil)}
	web := httptest.NewServer(r.api)
	t.Cleanup(web.Close)
	addr := bustest.FreeAddress(t)
	r.data = filepath.Join(r.dir, "data")
	r.env = append(os.Environ(),
		"HOME="+r.dir, "HUBBUB_DATA="+r.data, "HUBBUB_BUS=ws://"+addr, "HUBBUB_LISTEN="+addr, "HUBBUB_LOG_FORMAT=json",
		"HUBBUB_API_URL="+web.URL, "HUBBUB_MIN_SEND_INTERVAL=10ms", "HUBBUB_AGENT_ARG=--compose-window=100ms", "TELEGRAM_BOT_TOKEN="+r.api.Token())
	r.values = map[string]string{
		"ws://127.0.0.1:7892": "ws://" + addr, "URL": "ws://" + addr, "NAME": "name", "P": "agent:name", "SHELL": "bash",
		"FILE": "reviewer.txt", "FOLDER": "copy",
		"/var/lib/hubbub-bus": r.data, "/var/lib/hubbub-tg": r.data, "/var/lib/hubbub-chorus": r.data,
	}
	r.write("hubbub.toml", "[system]\n[broker]\n[tg]\nallow-user = [12345]\n[chorus]\nlisten = '127.0.0.1:0'\n")
	r.write("reviewer.txt", "https://reviewer.example.com/inbox/sk_a1b2c3\n")
	return r
}

func (r *reader) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// follow runs a command as its handling says.
func (r *reader) follow(c *documentstest.Command, h *handling) {
	r.t.Helper()
	switch {
	case h.elsewhere != "":
		r.checkElsewhere(c, h)
		return
	case h.named:
		if out := r.run(append(slices.Clone(c.Words), "--help"), nil); !strings.Contains(out, "Usage:") {
			r.t.Errorf("%s names %q, whose help is %q", c.Where, c, out)
		}
		return
	case h.serves:
		r.serve(c, h)
		return
	case h.on != "" && h.on != r.serving:
		serves := handlings[h.on]
		r.serve(documentstest.Parse(c.Where, h.on), &serves)
	}
	if h.first != nil {
		h.first(r)
	}
	if h.stays {
		r.start(c, h)
		return
	}
	out := r.run(append(r.words(c.Words), h.with...), nil)
	if m := regexp.MustCompile(`(?m)^msg_\S+`).FindString(out); m != "" && c.Words[1] == "pub" {
		r.values["MESSAGE"] = m
		r.until(m, "hubbub", "tail", "--data", "play")
	}
	if !regexp.MustCompile(`(?m)` + h.says).MatchString(out) {
		r.t.Errorf("%s: %q does not say %s:\n%s", c.Where, c, h.says, out)
	}
}

// useScriptedHarness makes this test binary the program that speaks C2A.
func (r *reader) useScriptedHarness() {
	r.values["COMMAND"] = os.Args[0]
	for name, value := range harnesstest.Environ(filepath.Join(r.dir, "harness")) {
		r.env = append(r.env, name+"="+value)
	}
}

// checkElsewhere checks that the check that runs a command exists.
func (r *reader) checkElsewhere(c *documentstest.Command, h *handling) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(h.file)))
	if err != nil || !strings.Contains(string(text), h.text) {
		r.t.Errorf("%s: %q does not run here (%s), and %s has no %q: %v", c.Where, c, h.elsewhere, h.file, h.text, err)
	}
	if c.Words[0] != "make" {
		return
	}
	dry := exec.CommandContext(r.t.Context(), "make", "--no-print-directory", "-n", c.Words[1])
	dry.Dir = ".."
	recipe, err := dry.Output()
	scripts := regexp.MustCompile(`(?m)^(?:[A-Z]+=\S+ )?(scripts/[a-z0-9.-]+)`).FindAllStringSubmatch(string(recipe), -1)
	if err != nil || len(scripts) == 0 {
		r.t.Errorf("%s: make %s would run %q: %v", c.Where, c.Words[1], recipe, err)
	}
	for _, script := range scripts {
		if said, err := exec.CommandContext(r.t.Context(), "sh", "-n", filepath.Join("..", script[1])).CombinedOutput(); err != nil {
			r.t.Errorf("%s: make %s: %s: %v", c.Where, c.Words[1], said, err)
		}
	}
}

// words replaces placeholders in words.
func (r *reader) words(words []string) []string {
	words = slices.Clone(words)
	for i, w := range words {
		if v, ok := r.values[w]; ok {
			words[i] = v
		}
	}
	return words
}

// command prepares a command of the reader.
func (r *reader) command(ctx context.Context, words, env []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, built(r.t, words[0]), words[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = r.dir, append(slices.Clone(r.env), env...), patience
	return cmd
}

// run runs a program, which must succeed, and returns its output.
func (r *reader) run(words, env []string) string {
	r.t.Helper()
	out, said, err := r.try(words, env)
	if err != nil {
		r.t.Errorf("%q: %v\n%s%s", strings.Join(words, " "), err, out, said)
	}
	return out + said
}

// try runs a program.
func (r *reader) try(words, env []string) (out, said string, err error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	cmd := r.command(ctx, words, env)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// until repeats a program until its output matches.
func (r *reader) until(pattern string, words ...string) string {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		began := time.Now()
		out, said, err := r.try(words, nil)
		if err == nil && regexp.MustCompile(pattern).MatchString(out) {
			return out
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%q never said %s: %v\n%s%s", strings.Join(words, " "), pattern, err, out, said)
		}
		<-pauseSince(began)
	}
}

// start starts a program that stays, and waits for its output.
func (r *reader) start(c *documentstest.Command, h *handling) {
	r.t.Helper()
	words := r.words(c.Words)
	p := &process{t: r.t, name: c.String(), sign: regexp.MustCompile(h.says)}
	for _, kv := range c.Env {
		if !strings.HasSuffix(kv, "=...") { // a secret that the reader has
			r.env = append(r.env, kv) // as if it were exported
		}
	}
	p.cmd = r.command(context.Background(), words, h.env)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.start(r.t)
	r.stay = append(r.stay, p)
}

// serve stops what runs and starts a command that serves.
func (r *reader) serve(c *documentstest.Command, h *handling) {
	r.t.Helper()
	for _, p := range slices.Backward(r.stay) {
		p.stop()
	}
	r.stay = nil
	if h.first != nil {
		h.first(r)
	}
	r.start(c, h)
	r.serving = c.String()
	if r.serving == plainSystem || r.serving == wholeSystem {
		r.chat()
	}
}

// chat writes to the bot, waits for the answer, and finds the message that the agent received.
func (r *reader) chat() {
	r.t.Helper()
	will := models.User{ID: 12345, FirstName: "Will", Username: "will"}
	chat := r.api.DM(will)
	said := r.api.Say(chat, will, "is the deploy blocked?")
	event := fmt.Sprintf("tg:%d:%d:%d", r.api.Bot().ID, chat.ID, said.ID)
	row := regexp.MustCompile(`"message_id":"([^"]+)".*"sourceId":"` + event + `"`)
	rows := r.until(row.String(), "hubbub", "tail", "--json", "--type", "tg_message", "--event", "send_start", "--topic", "agent:tg-12345")
	r.values["EVENT"], r.values["MESSAGE"] = event, row.FindStringSubmatch(rows)[1]
	r.values["ID"] = r.values["MESSAGE"]
	r.until(`"disposition":"responded"`, "hubbub", "why", "--json", r.values["EVENT"])
}

// giveWork creates a work item.
func (r *reader) giveWork() {
	r.t.Helper()
	r.run([]string{"hubbub", "work", "create", "mend it", "--as", "name", "--id", "wi-1", "--quiet"}, nil)
	r.values["WORK"], r.values["wi_01J..."] = "wi-1", "wi-1"
	r.until(`created`, "hubbub", "why", "wi-1")
}

// sendForbidden sends a message that the bus rejects.
func (r *reader) sendForbidden() {
	r.t.Helper()
	words := []string{"hubbub", "pub", "tg:1", "--type", "route_assigned", "--as", "tg:7"}
	if out, said, err := r.try(words, nil); err == nil {
		r.t.Errorf("%q was not refused: %s%s", words, out, said)
	}
	r.until("rejected", "hubbub", "tail", "--event", "rejected")
}

// revokeName revokes a credential that an earlier document created.
func (r *reader) revokeName() {
	_, _, _ = r.try([]string{"hubbub", "token", "revoke", "name"}, nil) // it may not exist
}

// createName creates a credential to revoke.
func (r *reader) createName() {
	_, _, _ = r.try([]string{"hubbub", "token", "create", "name", "--identity", "agent:name"}, nil) // it may exist
}

// startNATS starts a NATS server for the rest of the test.
func (r *reader) startNATS() {
	r.t.Helper()
	nats, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		r.t.Fatal(err)
	}
	nats.Start()
	r.t.Cleanup(func() { nats.Shutdown(); nats.WaitForShutdown() })
	r.values["nats://..."] = nats.ClientURL()
}
