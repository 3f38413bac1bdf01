package reference

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/screen"
)

// An Edition is a file of settings for one way to run the system.
type Edition struct {
	head   string
	tables []table // in the order in which the file explains the programs
}

// A table is one table of the file.
type table struct {
	name    string
	idle    bool              // it stands as a comment: the program is off unless one wants it
	intro   string            // what the flags of the program do not say
	active  map[string]string // keys that stand without the sign of comment, and their values
	without []string          // flags that the file may not set
}

// ForUp is the file of `hubbub up`.
var ForUp = Edition{
	head: `# Settings of ` + "`hubbub up --config hubbub.toml`" + `, made by ` + "`hubbub config sample`" + `.
#
# A table is a program, and each key in it one of the program's flags, with its
# default. A program without its table stays off, save the bus. Secrets are
# never here: they come in environment variables or in files of their own.

# Folder for everything that is kept (default $XDG_DATA_HOME/hubbub).
# data = "/var/lib/hubbub"

# Of every program: debug, info, warn or error.
# log-level = "info"

# Of ` + "`hubbub up`" + `: console or json (default console on a terminal).
# log-format = "json"
`,
	tables: []table{
		{name: "bus", intro: "It always runs, with or without this table."},
		{name: "system", intro: "Keys of language models (OPENAI_API_KEY, ANTHROPIC_API_KEY, or the same with _FILE) are " +
			"taken from the environment of `hubbub up` and reach the agents in a file."},
		{name: "broker"},
		{
			name: "tg", intro: "Its token comes from @BotFather. `hubbub pair` prints a code that admits a user or a group " +
				"without this file.",
			active: map[string]string{"allow-user": "[]", "allow-chat": "[]"},
		},
		{
			name: "agent", intro: "These are the flags of every agent that [system] starts. A harness that asks a model needs " +
				"its key; see [system].",
			active: map[string]string{"harness": `"scripted"`}, without: []string{"id"},
		},
		{name: "chorus", idle: true, intro: "Agents and channels are added with `hubbub chorus`, while it runs."},
	},
}

// ForServices is the file of the systemd units of the package.
var ForServices = Edition{
	head: `# Settings of the services, /etc/hubbub/hubbub.toml; made by ` + "`hubbub config sample --services`" + `.
#
# A table is a program, and each key in it one of the program's flags, with its
# default. Which services run, systemctl says. A change counts when the service is
# started again: systemctl restart hubbub-tg. Secrets are never here, but in files
# below /etc/hubbub/secrets; data is below /var/lib. See: hubbub help operating

# Of every program: debug, info, warn or error.
# log-level = "info"
`,
	tables: []table{
		{name: "bus", intro: "Where it listens elsewhere, every other table wants bus = [\"ws://ADDRESS\"]."},
		{
			name: "system", intro: "Keys of language models, such as OPENAI_API_KEY=..., are lines of /etc/hubbub/secrets/agent.env. " +
				"Agents are units of their own, hubbub-agent-NAME.service.",
			active: map[string]string{
				"agent-arg": `["--config=/etc/hubbub/hubbub.toml#agent"]`, "memory-max": `"1G"`, "tasks-max": "256",
			},
			without: []string{"launcher", "agent-env-file"},
		},
		{name: "broker"},
		{
			name: "tg", intro: "Put its token, from @BotFather, into /etc/hubbub/secrets/telegram-bot-token. " +
				"`sudo -u hubbub-tg hubbub pair --data /var/lib/hubbub-tg` prints a code that admits a user or a group without this file.",
			active: map[string]string{"allow-user": "[]", "allow-chat": "[]"},
		},
		{
			name: "agent", intro: "These are the flags of every agent that [system] starts, by its agent-arg; a change counts when " +
				"an agent is started again. A harness that asks a model needs its key; see [system].",
			active: map[string]string{"harness": `"scripted"`}, without: []string{"id"},
		},
		{name: "chorus", intro: "It runs once enabled: systemctl enable --now hubbub-chorus. Agents and channels are added with " +
			"`sudo -u hubbub-chorus hubbub chorus --data /var/lib/hubbub-chorus`, while it runs."},
	},
}

// Programs lists the programs that [Sample] wants, in order.
func Programs() []string {
	var list []string
	for i := range ForUp.tables {
		list = append(list, "hubbub-"+ForUp.tables[i].name)
	}
	return list
}

// Sample writes an edition of hubbub.toml from the descriptions of [Programs].
func Sample(e *Edition, programs []program.Description) (string, error) {
	var b strings.Builder
	b.WriteString(e.head)
	for i := range e.tables {
		t := &e.tables[i]
		at := slices.IndexFunc(programs, func(d program.Description) bool { return d.Name == "hubbub-"+t.name })
		if at < 0 {
			return "", fmt.Errorf("the settings of hubbub-%s are missing", t.name)
		}
		t.write(&b, programs[at])
	}
	return b.String(), nil
}

func (t *table) write(b *strings.Builder, d program.Description) {
	head := "[" + t.name + "]"
	if t.idle {
		head = "# " + head
	}
	fmt.Fprintf(b, "\n%s\n%s\n", strings.Repeat("#", lineWidth), head)
	comment(b, sentence(d.Name+" "+d.Summary)+" "+t.intro)
	for _, s := range d.Settings {
		if s.Shared || slices.Contains(t.without, s.Name) {
			continue
		}
		b.WriteByte('\n')
		comment(b, sentence(s.Usage))
		if v, ok := t.active[s.Name]; ok {
			fmt.Fprintf(b, "%s = %s\n", s.Name, v)
		} else {
			fmt.Fprintf(b, "# %s = %s\n", s.Name, literal(s))
		}
	}
}

// lineWidth is the width of the sample, in characters.
const lineWidth = 100

// comment writes text as lines of comment.
func comment(b *strings.Builder, text string) {
	for _, line := range screen.Wrap(strings.TrimSpace(text), lineWidth-2) {
		b.WriteString("# " + line + "\n")
	}
}

// sentence capitalizes a text, unless it begins with a name, and ends it with a period.
func sentence(text string) string {
	text = strings.ReplaceAll(text, "(repeatable)", "(a list)")
	text = strings.ReplaceAll(text, "(repeatable; ", "(a list; ")
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	if !strings.HasPrefix(text, "hubbub") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return text + "."
}

// literal returns the default of a setting in TOML.
func literal(s program.Setting) string {
	switch {
	case s.Repeatable:
		return "[]"
	case s.Type == "bool" || s.Type == "int" || s.Type == "int64":
		return s.Default
	case s.Type == "duration":
		return strconv.Quote(short(s.Default))
	default:
		return strconv.Quote(s.Default)
	}
}

// short drops trailing zeros from a duration: 5m0s becomes 5m.
func short(d string) string {
	if strings.HasSuffix(d, "m0s") {
		d = strings.TrimSuffix(d, "0s")
	}
	if strings.HasSuffix(d, "h0m") {
		d = strings.TrimSuffix(d, "0m")
	}
	return d
}
