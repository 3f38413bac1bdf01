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
	name    string   // name of its table, and prefix of its log lines
	stage   int      // start stage; see package fleet
	secrets []string // environment variables that only this program gets
}

var components = []component{
	{name: "bus", stage: 0, secrets: []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"}},
	{name: "system", stage: 1},
	{name: "broker", stage: 1},
	{name: "tg", stage: 1, secrets: []string{"TELEGRAM_BOT_TOKEN", "TELEGRAM_WEBHOOK_SECRET"}},
	{name: "matrix", stage: 1, secrets: []string{"MATRIX_ACCESS_TOKEN", "MATRIX_PASSWORD"}},
	{name: "chorus", stage: 1},
}

// modelKeys are the keys of language models. Only the agents need them; they get them in a file.
var modelKeys = []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}

// managedFlags are the flags that `hubbub up` sets for every program. The settings file may not
// set them.
var managedFlags = []string{"bus", "data", "token-file", "log-level", "log-format", "config", "id"}

// A Request has everything that a plan depends on.
type Request struct {
	File      string         // path of the settings file, or ""
	Settings  map[string]any // content of the settings file
	Env       []string       // environment of this process
	Data      string         // data folder
	LogLevel  string         // --log-level
	LogFormat string         // --log-format
	bus       string         // address that the peers use; "" means the listen address
	Find      func(name string) (path string, err error)
}

// A Plan says what will run, what will not run, and why.
type Plan struct {
	Bus           string // address that the peers dial
	listenAddress string // where the bus listens, if the peers dial another address
	data          string // data folder
	AgentEnv      string // content of the file with the agents' keys, or ""
	Children      []fleet.Child
	skipped       []skipped
}

// A skipped is a program that does not run. It is wanted if the settings file configures it.
type skipped struct {
	name, reason string
	wanted       bool
}

// NewPlan plans what to run. It changes nothing.
func NewPlan(r Request) (*Plan, error) {
	if wrong := r.unknownKeys(); len(wrong) > 0 {
		return nil, program.Usage("%s", wrong[0])
	}
	own, err := program.BusAddress(r.Table("bus"), func(name string) string { return LookupEnv(r.Env, name) })
	if err != nil {
		return nil, err
	}
	p := &Plan{Bus: own, data: r.Data, AgentEnv: r.agentEnv()}
	if r.bus != "" && r.bus != own {
		p.Bus, p.listenAddress = r.bus, own
	}
	for _, part := range components {
		if part.name == "matrix" && !r.has(part.name) && !r.hasSecret(part) {
			continue // unlike Telegram, few expect it
		}
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

// unknownKeys returns the settings that no program reads.
func (r *Request) unknownKeys() (list []ConfigError) {
	top := append([]string{"data", "log-level", "log-format"}, program.Sections...)
	for _, key := range slices.Sorted(maps.Keys(r.Settings)) {
		_, isTable := r.Settings[key].(map[string]any)
		section := slices.Contains(program.Sections, key)
		switch {
		case !slices.Contains(top, key):
			list = append(list, r.configError(
				"", key, fmt.Sprintf("unknown key %q; the keys outside the tables are %s", key,
					strings.Join(top, ", ")),
			))
		case section && !isTable:
			list = append(list, r.configError("", key, fmt.Sprintf("%s must be a table, written [%s]", key, key)))
		case !section && isTable:
			list = append(list, r.configError(key, "", key+" is a setting, not a table"))
		}
	}
	for _, section := range program.Sections {
		for _, key := range managedFlags {
			if _, ok := r.Table(section)[key]; ok {
				list = append(
					list, r.configError(section, key,
						fmt.Sprintf("%q may not be set: `hubbub up` sets it for every program", key)),
				)
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

// skipReason returns why a program does not run, or "".
func (r *Request) skipReason(p component) string {
	token := cmp.Or(LookupEnv(r.Env, "TELEGRAM_BOT_TOKEN"), LookupEnv(r.Env, "TELEGRAM_BOT_TOKEN_FILE"))
	switch configured := r.has(p.name); {
	case p.name == "tg" && token == "" && configured:
		return "TELEGRAM_BOT_TOKEN is not set (get a token from @BotFather)"
	case p.name == "tg" && token == "":
		return "not configured: set TELEGRAM_BOT_TOKEN, and set who may use the bot in [tg] or HUBBUB_ALLOW_USER"
	case p.name == "matrix" && !configured && LookupEnv(r.Env, program.EnvName("homeserver")) == "":
		return "not configured: set the bot's homeserver in [matrix] or HUBBUB_HOMESERVER"
	case p.name == "matrix" && !r.hasSecret(p):
		return "neither MATRIX_ACCESS_TOKEN nor MATRIX_PASSWORD is set"
	case p.name == "chorus" && !configured:
		return "not configured: add [chorus] to the file of --config"
	}
	return ""
}

// hasSecret reports whether a secret of a program is set.
func (r *Request) hasSecret(p component) bool {
	return slices.ContainsFunc(withFileVariants(p.secrets),
		func(name string) bool { return LookupEnv(r.Env, name) != "" })
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

// args returns the arguments of a program: the flags that `hubbub up` sets, and the program's
// table of the settings file.
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

// agentArgs returns the flags of the spawner for the table of the agents and their keys.
func (r *Request) agentArgs() []string {
	table := r.Table("agent")
	var args []string
	if r.agentEnv() != "" {
		args = append(args, "--agent-env-file", filepath.Join(r.Data, provision.AgentEnvFile))
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		values, err := program.TOMLStrings(table[key])
		if err != nil {
			values = []string{fmt.Sprint(table[key])} // the agent rejects it and says why
		}
		for _, v := range values {
			args = append(args, "--agent-arg=--"+key+"="+v)
		}
	}
	return args
}

// agentEnv returns the agents' keys from the environment, unless the settings file names another
// file with them.
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

// withFileVariants returns each variable of a secret with the variable that names a file with the
// secret.
func withFileVariants(secrets []string) (names []string) {
	for _, s := range secrets {
		names = append(names, s, s+"_FILE")
	}
	return names
}

// ownVariables are variables that are meant for this process only.
var ownVariables = append([]string{
	"HUBBUB_BUS", "HUBBUB_CONFIG", "HUBBUB_DATA", "HUBBUB_JSON", "HUBBUB_LOG_FORMAT", "HUBBUB_LOG_LEVEL",
	"HUBBUB_TOKEN", "HUBBUB_TOKEN_FILE", "HUBBUB_EXIT",
}, proc.ServiceEnv...)

// environment returns the variables of a program: the environment without the variables of this
// process and without the secrets of other programs.
func (r *Request) environment(p component) []string {
	drop := slices.Concat(ownVariables, withFileVariants(modelKeys))
	for _, other := range components {
		if other.name != p.name {
			drop = append(drop, withFileVariants(other.secrets)...)
		}
	}
	if p.name != "bus" {
		drop = append(drop, program.EnvName("listen")) // it is meant for the bus
	}
	// The bridges share the names of these flags: the form of a user id tells whose it is, and
	// only Telegram's bridge listens on a port.
	users := program.EnvName("allow-user")
	if strings.HasPrefix(LookupEnv(r.Env, users), "@") != (p.name == "matrix") {
		drop = append(drop, users)
	}
	if p.name == "matrix" {
		drop = append(drop, program.EnvName("files-listen"), program.EnvName("files-url"))
	}
	return append(proc.DropEnv(r.Env, drop...), proc.CrashEnv)
}

// WithoutSettings returns an environment without settings and secrets, for programs that are not part
// of the system that the environment is for.
func WithoutSettings(env []string) []string {
	return proc.DropEnv(env, slices.Concat([]string{"OTEL_*"}, withFileVariants(modelKeys), proc.ProgramEnv)...)
}
