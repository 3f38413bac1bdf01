package up

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"hubbub/cmd/hubbub/internal/provision"
	"hubbub/cmd/internal/fleet"
	"hubbub/cmd/internal/program"
	"hubbub/peers/proc"
)

// A component is one of the programs that `hubbub up` runs.
type component struct {
	name    string   // table of the file, and prefix of the log
	stage   int      // when it starts; see package fleet
	secrets []string // environment variables that it alone gets
}

var components = []component{
	{name: "bus", stage: 0, secrets: []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"}},
	{name: "system", stage: 1},
	{name: "broker", stage: 1},
	{name: "tg", stage: 1, secrets: []string{"TELEGRAM_BOT_TOKEN", "TELEGRAM_WEBHOOK_SECRET"}},
	{name: "chorus", stage: 1},
}

// modelKeys open language models. The agents get them in a file; no other
// program needs them.
var modelKeys = []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}

// managedFlags are set by `hubbub up` for every part, so its file may not.
var managedFlags = []string{"bus", "data", "token-file", "log-level", "log-format", "config", "id"}

// A Request is everything that a plan depends on.
type Request struct {
	File      string         // path of the settings, or empty
	Settings  map[string]any // its content
	Env       []string       // of this process
	Data      string         // folder
	LogLevel  string         // --log-level
	LogFormat string         // --log-format
	bus       string         // address that the peers use; empty: where the bus listens
	Find      func(name string) (path string, err error)
}

// A Plan says what will run, what will not, and why.
type Plan struct {
	Bus           string // address of the bus, as the peers dial it
	listenAddress string // where the bus listens, if the peers were told to dial another address
	data          string // folder of everything
	AgentEnv      string // content of the file with the agents' keys, or empty
	Children      []fleet.Child
	skipped       []skipped
}

// An skipped is a part that does not run. It is wanted if the file asks for it.
type skipped struct {
	name, reason string
	wanted       bool
}

// NewPlan decides what to run. It changes nothing.
func NewPlan(r Request) (*Plan, error) {
	if wrong := r.unknownKeys(); len(wrong) > 0 {
		return nil, program.Usage("%s", wrong[0])
	}
	own, err := r.ownAddress()
	if err != nil {
		return nil, err
	}
	p := &Plan{Bus: own, data: r.Data, AgentEnv: r.agentEnv()}
	if r.bus != "" && r.bus != own {
		p.Bus, p.listenAddress = r.bus, own
	}
	for _, part := range components {
		if reason := r.skipReason(part); reason != "" {
			p.skipped = append(p.skipped, skipped{part.name, reason, r.has(part.name)})
			continue
		}
		path, err := r.Find("hubbub-" + part.name)
		if err != nil {
			return nil, err
		}
		p.Children = append(p.Children, fleet.Child{
			Name: part.name, Path: path, Stage: part.stage, Args: r.args(part, p.Bus), Env: r.environment(part),
		})
	}
	return p, nil
}

// unknownKeys returns the settings that no part would read.
func (r *Request) unknownKeys() (list []ConfigError) {
	top := append([]string{"data", "log-level", "log-format"}, program.Sections...)
	for _, key := range slices.Sorted(maps.Keys(r.Settings)) {
		_, isTable := r.Settings[key].(map[string]any)
		section := slices.Contains(program.Sections, key)
		switch {
		case !slices.Contains(top, key):
			list = append(list, r.configError("", key, fmt.Sprintf("unknown key %q; at the top it may have %s", key, strings.Join(top, ", "))))
		case section && !isTable:
			list = append(list, r.configError("", key, fmt.Sprintf("%s must be a table, written [%s]", key, key)))
		case !section && isTable:
			list = append(list, r.configError(key, "", key+" is a setting, not a table"))
		}
	}
	for _, section := range program.Sections {
		for _, key := range managedFlags {
			if _, ok := r.Table(section)[key]; ok {
				list = append(list, r.configError(section, key, fmt.Sprintf("may not set %q: `hubbub up` sets it for every program", key)))
			}
		}
	}
	return list
}

// Table returns a table of the settings file, or nil.
func (r *Request) Table(name string) map[string]any {
	t, _ := r.Settings[name].(map[string]any)
	return t
}

func (r *Request) has(name string) bool { _, ok := r.Settings[name]; return ok }

// skipReason returns why a part does not run, or "".
func (r *Request) skipReason(p component) string {
	token := cmp.Or(LookupEnv(r.Env, "TELEGRAM_BOT_TOKEN"), LookupEnv(r.Env, "TELEGRAM_BOT_TOKEN_FILE"))
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

// LookupEnv returns the value of a variable in env, or "".
func LookupEnv(env []string, key string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}

// args returns the arguments of a part: flags for what `hubbub up` decides, and its
// table of the file for the rest.
func (r *Request) args(p component, bus string) []string {
	args := []string{"--data", r.Data, "--log-format", "json", "--log-level", r.LogLevel}
	if p.name != "bus" {
		args = append(args, "--bus", bus, "--token-file", program.TokenPath(r.Data, p.name))
	}
	if r.has(p.name) {
		args = append(args, "--config", r.File+"#"+p.name)
	}
	if p.name == "system" {
		args = append(args, r.agentArgs()...)
	}
	return args
}

// agentArgs turns the table of the agents, and their keys, into flags of the
// spawner.
func (r *Request) agentArgs() []string {
	table := r.Table("agent")
	var args []string
	if r.agentEnv() != "" {
		args = append(args, "--agent-env-file", filepath.Join(r.Data, provision.AgentEnvFile))
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

// AgentEnv returns the agents' keys from our environment, unless the file says
// where else they are.
func (r *Request) agentEnv() string {
	if _, set := r.Table("system")["agent-env-file"]; set {
		return ""
	}
	var b strings.Builder
	for _, name := range withFileVariants(modelKeys) {
		if v := LookupEnv(r.Env, name); v != "" {
			fmt.Fprintf(&b, "%s=%s\n", name, v)
		}
	}
	return b.String()
}

// withFileVariants adds to each secret the variable that names a file with it.
func withFileVariants(secrets []string) (names []string) {
	for _, s := range secrets {
		names = append(names, s, s+"_FILE")
	}
	return names
}

// ownVariables are variables that mean this process alone.
var ownVariables = append([]string{
	"HUBBUB_BUS", "HUBBUB_CONFIG", "HUBBUB_DATA", "HUBBUB_JSON", "HUBBUB_LOG_FORMAT", "HUBBUB_LOG_LEVEL",
	"HUBBUB_TOKEN", "HUBBUB_TOKEN_FILE", "HUBBUB_EXIT",
}, proc.ServiceEnv...)

// environment returns the variables of a part: ours, without what is only for
// us, and without the secrets of other parts.
func (r *Request) environment(p component) []string {
	drop := slices.Concat(ownVariables, withFileVariants(modelKeys))
	for _, other := range components {
		if other.name != p.name {
			drop = append(drop, withFileVariants(other.secrets)...)
		}
	}
	if p.name != "bus" {
		drop = append(drop, program.EnvName("listen")) // it means the bus
	}
	return proc.DropEnv(r.Env, drop...)
}

// ownAddress returns where the bus listens, as its peers dial it.
func (r *Request) ownAddress() (string, error) {
	listen, ok := program.TOMLText(r.Table("bus")["listen"])
	if !ok {
		listen = cmp.Or(LookupEnv(r.Env, "HUBBUB_LISTEN"), "127.0.0.1:7892")
	}
	_, secure := r.Table("bus")["tls-cert"]
	return program.BusAddress(listen, secure)
}
