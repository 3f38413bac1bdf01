package main

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"hubbub/cmd/internal/fleet"
	"hubbub/cmd/internal/program"
	"hubbub/peers/proc"
)

// A part is one of the programs that `hubbub up` runs.
type part struct {
	name    string   // table of the file, and prefix of the log
	stage   int      // when it starts; see package fleet
	secrets []string // environment variables that it alone gets
}

var parts = []part{
	{name: "bus", stage: 0, secrets: []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"}},
	{name: "system", stage: 1},
	{name: "broker", stage: 1},
	{name: "tg", stage: 1, secrets: []string{"TELEGRAM_BOT_TOKEN", "TELEGRAM_WEBHOOK_SECRET"}},
	{name: "chorus", stage: 1},
}

// modelKeys open language models. The agents get them in a file; no other
// program needs them.
var modelKeys = []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}

// agentEnvFile is the file with the agents' keys, in the data folder.
const agentEnvFile = "agent.env"

// ownFlags are set by `hubbub up` for every part, so its file may not.
var ownFlags = []string{"bus", "data", "token-file", "log-level", "log-format", "config", "id"}

// A request is everything that a plan depends on.
type request struct {
	file     string         // path of the settings, or empty
	settings map[string]any // its content
	env      []string       // of this process
	data     string         // folder
	level    string         // --log-level
	format   string         // --log-format
	bus      string         // address that the peers use; empty: where the bus listens
	find     func(name string) (path string, err error)
}

// A plan says what will run, what will not, and why.
type plan struct {
	bus      string // address of the bus, as the peers dial it
	ownBus   string // where the bus listens, if the peers were told to dial another address
	data     string // folder of everything
	agentEnv string // content of the file with the agents' keys, or empty
	children []fleet.Child
	idle     []idlePart
}

// An idlePart is a part that does not run. It is wanted if the file asks for it.
type idlePart struct {
	name, reason string
	wanted       bool
}

// makePlan decides what to run. It changes nothing.
func makePlan(r request) (*plan, error) {
	if wrong := r.unread(); len(wrong) > 0 {
		return nil, program.Usage("%s", wrong[0])
	}
	own, err := r.ownAddress()
	if err != nil {
		return nil, err
	}
	p := &plan{bus: own, data: r.data, agentEnv: r.agentEnv()}
	if r.bus != "" && r.bus != own {
		p.bus, p.ownBus = r.bus, own
	}
	for _, part := range parts {
		if reason := r.whyNot(part); reason != "" {
			p.idle = append(p.idle, idlePart{part.name, reason, r.has(part.name)})
			continue
		}
		path, err := r.find("hubbub-" + part.name)
		if err != nil {
			return nil, err
		}
		p.children = append(p.children, fleet.Child{
			Name: part.name, Path: path, Stage: part.stage, Args: r.args(part, p.bus), Env: r.environment(part),
		})
	}
	return p, nil
}

// unread returns the settings that no part would read.
func (r *request) unread() (list []mistake) {
	top := append([]string{"data", "log-level", "log-format"}, program.Sections...)
	for _, key := range slices.Sorted(maps.Keys(r.settings)) {
		_, isTable := r.settings[key].(map[string]any)
		section := slices.Contains(program.Sections, key)
		switch {
		case !slices.Contains(top, key):
			list = append(list, r.mistake("", key, fmt.Sprintf("unknown key %q; at the top it may have %s", key, strings.Join(top, ", "))))
		case section && !isTable:
			list = append(list, r.mistake("", key, fmt.Sprintf("%s must be a table, written [%s]", key, key)))
		case !section && isTable:
			list = append(list, r.mistake(key, "", key+" is a setting, not a table"))
		}
	}
	for _, section := range program.Sections {
		for _, key := range ownFlags {
			if _, ok := r.table(section)[key]; ok {
				list = append(list, r.mistake(section, key, fmt.Sprintf("may not set %q: `hubbub up` sets it for every program", key)))
			}
		}
	}
	return list
}

func (r *request) table(name string) map[string]any {
	t, _ := r.settings[name].(map[string]any)
	return t
}

func (r *request) has(name string) bool { _, ok := r.settings[name]; return ok }

// whyNot returns why a part does not run, or "".
func (r *request) whyNot(p part) string {
	token := cmp.Or(lookup(r.env, "TELEGRAM_BOT_TOKEN"), lookup(r.env, "TELEGRAM_BOT_TOKEN_FILE"))
	switch configured := r.has(p.name); {
	case p.name == "tg" && token == "" && configured:
		return "TELEGRAM_BOT_TOKEN is not set (a bot's token comes from @BotFather)"
	case p.name == "tg" && token == "":
		return "not configured: set TELEGRAM_BOT_TOKEN, and who may use the bot in [tg] or HUBBUB_ALLOW_USER"
	case p.name == "chorus" && !configured:
		return "not configured: it needs [chorus] in the file of --config"
	}
	return ""
}

func lookup(env []string, key string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}

// args returns the arguments of a part: flags for what `hubbub up` decides, and its
// table of the file for the rest.
func (r *request) args(p part, bus string) []string {
	args := []string{"--data", r.data, "--log-format", "json", "--log-level", r.level}
	if p.name != "bus" {
		args = append(args, "--bus", bus, "--token-file", program.TokenPath(r.data, p.name))
	}
	if r.has(p.name) {
		args = append(args, "--config", r.file+"#"+p.name)
	}
	if p.name == "system" {
		args = append(args, r.agentArgs()...)
	}
	return args
}

// agentArgs turns the table of the agents, and their keys, into flags of the
// spawner.
func (r *request) agentArgs() []string {
	table := r.table("agent")
	var args []string
	if r.agentEnv() != "" {
		args = append(args, "--agent-env-file", filepath.Join(r.data, agentEnvFile))
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		values, err := program.TOMLStrings(table[key])
		if err != nil {
			values = []string{fmt.Sprint(table[key])} // the agent refuses it and says why
		}
		for _, v := range values {
			args = append(args, "--agent-arg=--"+key+"="+v)
		}
	}
	return args
}

// agentEnv returns the agents' keys from our environment, unless the file says
// where else they are.
func (r *request) agentEnv() string {
	if _, set := r.table("system")["agent-env-file"]; set {
		return ""
	}
	var b strings.Builder
	for _, name := range withFiles(modelKeys) {
		if v := lookup(r.env, name); v != "" {
			fmt.Fprintf(&b, "%s=%s\n", name, v)
		}
	}
	return b.String()
}

// withFiles adds to each secret the variable that names a file with it.
func withFiles(secrets []string) (names []string) {
	for _, s := range secrets {
		names = append(names, s, s+"_FILE")
	}
	return names
}

// notInherited are variables that mean this process alone.
var notInherited = append([]string{
	"HUBBUB_BUS", "HUBBUB_CONFIG", "HUBBUB_DATA", "HUBBUB_JSON", "HUBBUB_LOG_FORMAT", "HUBBUB_LOG_LEVEL",
	"HUBBUB_TOKEN", "HUBBUB_TOKEN_FILE", "HUBBUB_EXIT",
}, proc.ServiceEnv...)

// environment returns the variables of a part: ours, without what is only for
// us, and without the secrets of other parts.
func (r *request) environment(p part) []string {
	drop := slices.Concat(notInherited, withFiles(modelKeys))
	for _, other := range parts {
		if other.name != p.name {
			drop = append(drop, withFiles(other.secrets)...)
		}
	}
	if p.name != "bus" {
		drop = append(drop, program.EnvName("listen")) // it means the bus
	}
	return proc.DropEnv(r.env, drop...)
}

// ownAddress returns where the bus listens, as its peers dial it.
func (r *request) ownAddress() (string, error) {
	listen, ok := program.TOMLText(r.table("bus")["listen"])
	if !ok {
		listen = cmp.Or(lookup(r.env, "HUBBUB_LISTEN"), "127.0.0.1:7892")
	}
	_, secure := r.table("bus")["tls-cert"]
	return program.BusAddress(listen, secure)
}
