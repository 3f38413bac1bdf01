package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/activitylog/write"
	"hubbub/bus/report"
	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/hubbub/internal/provision"
	"hubbub/cmd/hubbub/internal/up"
	"hubbub/cmd/internal/deadletter"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/peers/agent/harness/model"
	"hubbub/peers/agent/harness/subprocess"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/outbox"
	"hubbub/peers/system"
	"hubbub/peers/tg"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// checks are the options of doctor's checks.
type checks struct {
	apiURL         string
	harness        string
	harnessCommand string
	model, baseURL string // of the harness, from the settings file
	keep           string // activity-keep, from the settings file

	homeserver, matrixUser string // from the settings file
	deleteWebhook          bool
}

// NewCommand returns the command `hubbub doctor`.
func NewCommand() *cobra.Command {
	var x checks
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out why something does not work, and what to do about it",
		Long: "Check the bot token (TELEGRAM_BOT_TOKEN), what privacy mode hides, a second poller, a leftover\n" +
			"webhook, the clock, the disk, the activity log, the bus, undelivered messages, and agents that\n" +
			"failed or decide nothing. Check also that the agents' model answers, accepts the key and\n" +
			"has the model, or that another harness is logged in. Exits 1 if there is a problem.",
		RunE: x.run,
	}
	cmd.Flags().StringVar(&x.apiURL, "api-url", botapi.DefaultURL, "address of the Bot API")
	cmd.Flags().StringVar(
		&x.harness,
		"harness",
		"",
		"check what this harness needs: openai, anthropic, acp or c2a (default: what the environment suggests)",
	)
	cmd.Flags().StringVar(&x.harnessCommand, "harness-command", "", "command of an acp or c2a harness")
	cmd.Flags().BoolVar(&x.deleteWebhook, "delete-webhook", false, "remove the bot's webhook; pending updates are kept")
	return cmd
}

func (x *checks) run(cmd *cobra.Command, _ []string) error {
	env := program.From(cmd)
	configErrors, err := x.readSettings(cmd, env)
	if err != nil {
		return err
	}
	token, err := env.Secret("TELEGRAM_BOT_TOKEN")
	if err != nil {
		return err
	}
	if x.deleteWebhook {
		if token == "" {
			return errors.New("set TELEGRAM_BOT_TOKEN to the token of the bot whose webhook you want to remove")
		}
		if err := tg.DeleteWebhook(cmd.Context(), token, &botapi.Options{URL: x.apiURL}); err != nil {
			return fmt.Errorf("removing the webhook: %w", err)
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "webhook removed")
	}
	findings := slices.Concat(
		section("settings", configErrors...),
		section("disk", checkDisk(env.Data)),
		section("log", x.checkLog(cmd.Context(), env.Data)),
		section("clock", checkClock(env.Data)...),
		section("bus", checkBus(cmd.Context(), env)),
		section("outbox", checkOutboxes(cmd.Context(), env.Data)),
		section("agents", checkAgents(cmd.Context(), env.Data)...),
		section("agents", checkMailboxes(cmd.Context(), env.Data, time.Now())...),
	)
	if token == "" {
		findings = append(findings, section("bot token", tg.Finding{Level: tg.LevelSkipped,
			Message: "TELEGRAM_BOT_TOKEN is not set, so the bot was not checked.",
			Advice:  "Set it to the token from @BotFather to check the bot."})...)
	} else {
		findings = append(findings, tg.Diagnose(
			cmd.Context(), token, &botapi.Options{URL: x.apiURL}, bridgeState(cmd.Context(), env, token),
		)...)
	}
	findings = append(findings, section("matrix", x.checkMatrix(cmd.Context(), env)...)...)
	findings = append(findings, section("harness", x.checkHarness(cmd.Context(), env))...)
	return reportFindings(output.NewPrinter(cmd), findings)
}

// readSettings reads the settings file of `hubbub up` for options that no flag sets. It returns
// the errors in that file as findings.
func (x *checks) readSettings(cmd *cobra.Command, env *program.Env) (findings []tg.Finding, err error) {
	if env.Config == "" {
		return nil, nil
	}
	r, err := up.ReadRequest(cmd)
	if err != nil {
		return nil, err
	}
	r.Env = append(storedEnv(r.Data), r.Env...)
	for _, s := range []struct {
		table, key string
		into       *string
	}{{
		"bus", "activity-keep", &x.keep,
	}, {"tg", "api-url", &x.apiURL},
		{"matrix", "homeserver", &x.homeserver}, {"matrix", "user", &x.matrixUser},
		{"agent", "harness", &x.harness}, {"agent", "harness-command", &x.harnessCommand},
		{"agent", "model", &x.model}, {"agent", "base-url", &x.baseURL}} {
		if value, ok := program.TOMLText(r.Table(s.table)[s.key]); ok && !cmd.Flags().Changed(s.key) {
			*s.into = value
		}
	}
	for _, m := range r.ConfigErrors(cmd.Context()) {
		findings = append(findings, problem(m.String(), "Fix it, and run `hubbub config check`."))
	}
	return findings, nil
}

// section sets the section of findings.
func section(check string, findings ...tg.Finding) []tg.Finding {
	for i := range findings {
		findings[i].Check = check
	}
	return findings
}

func ok(says string) tg.Finding { return tg.Finding{Level: tg.LevelOK, Message: says} }

func warning(says, advice string) tg.Finding {
	return tg.Finding{Level: tg.LevelWarning, Message: says, Advice: advice}
}

func problem(says, advice string) tg.Finding {
	return tg.Finding{Level: tg.LevelProblem, Message: says, Advice: advice}
}

// reportFindings prints the findings. It returns an error if one of them is a problem.
func reportFindings(p *output.Printer, findings []tg.Finding) error {
	marks := map[tg.Level]string{
		tg.LevelOK:      "ok",
		tg.LevelWarning: "warning",
		tg.LevelProblem: "PROBLEM",
		tg.LevelSkipped: "skipped",
	}
	problems := 0
	for _, f := range findings {
		if f.Level == tg.LevelProblem {
			problems++
		}
		if p.JSON {
			p.Value(f)
			continue
		}
		p.Linef("%s", term.Hang(fmt.Sprintf("%-7s  ", marks[f.Level]), f.Check+": "+f.Message, p.Columns))
		if f.Advice != "" {
			p.Linef("%s", term.Hang("         -> ", f.Advice, p.Columns))
		}
	}
	switch {
	case p.Err != nil || problems == 0:
		return p.Err
	case problems == 1:
		return errors.New("1 problem found")
	}
	return fmt.Errorf("%d problems found", problems)
}

// Thresholds for the free space on the disk of the data folder, in bytes.
const (
	diskProblem = 64 << 20
	diskWarning = 1 << 30
)

// checkDisk checks that the data folder can be written and that the disk has space.
func checkDisk(data string) tg.Finding {
	folder := data
	for !program.FileExists(folder) && filepath.Dir(folder) != folder {
		folder = filepath.Dir(folder)
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		return problem("The data folder "+data+" cannot be checked: "+err.Error(), "Name another with --data.")
	}
	probe, err := os.CreateTemp(folder, ".doctor-*")
	if err == nil {
		_, err = probe.Write(make([]byte, 64<<10))
		err = errors.Join(err, probe.Sync(), probe.Close(), os.Remove(probe.Name()))
	}
	free := int64(stat.Bavail) * int64(stat.Bsize)
	switch {
	case errors.Is(err, unix.ENOSPC) || stat.Blocks > 0 && free < diskProblem:
		return problem(fmt.Sprintf("The disk of %s is full: %s are free. Until there is space, updates stay with "+
			"Telegram, "+
			"and answers of agents are rejected.", data, formatSize(free)),
			"Free some space. `hubbub log prune --before 30d` deletes old files of the activity log. "+
				"Or move the folder, and name it with --data.")
	case err != nil:
		return problem("Files cannot be written to "+folder+": "+err.Error(),
			adviceFor(err, data, "Make this user the owner of the folder, or name another folder with --data."))
	case free < diskWarning:
		return warning(
			fmt.Sprintf("Only %s are free for %s.", formatSize(free), data), "Free some space before the disk is full.",
		)
	}
	return ok(fmt.Sprintf("%s are free for %s.", formatSize(free), data))
}

// checkLog checks how much disk the activity log takes and will take.
func (x *checks) checkLog(ctx context.Context, data string) tg.Finding {
	path := filepath.Join(data, "activity.db")
	keep, err := activitylog.ParseRetention(cmp.Or(x.keep, activitylog.DefaultRetention))
	if err != nil {
		return problem("activity-keep: "+err.Error()+".", "Fix it in the table [bus] of the settings file.")
	}
	size, err := read.DiskUsageOf(ctx, path)
	switch {
	case err != nil:
		return problem(
			"The activity log cannot be read: "+err.Error(), adviceFor(err, data, "`hubbub log verify` shows what is wrong."),
		)
	case size.Bytes == 0:
		return tg.Finding{Level: tg.LevelSkipped, Message: "No bus has written an activity log in " + data + "."}
	}
	says := fmt.Sprintf("The activity log is kept %s. %s", describeRetention(keep), keep.Describe(size, time.Now()))
	var stat unix.Statfs_t
	bytes, _, known := keep.Forecast(size, time.Now())
	if err := unix.Statfs(
		data, &stat,
	); err == nil && known && !keep.Forever() && bytes-size.Bytes > int64(stat.Bavail)*int64(stat.Bsize) {
		return warning(
			says+" The disk has no space for that.", "Set activity-keep to fewer days, or to a size such as 20GiB.",
		)
	}
	return ok(says)
}

// clockJumpShown is how long a jump of the clock is shown after it has ended.
const clockJumpShown = 30 * 24 * time.Hour

// checkClock reports whether the clock of the machine has jumped while a bus ran here.
func checkClock(data string) []tg.Finding {
	const advice = "Check what sets the clock (timedatectl)."
	s, err := write.ReadClock(filepath.Join(data, "activity.db"))
	j := s.Jump
	switch {
	case err != nil:
		return []tg.Finding{warning(err.Error(), "Remove the file: the bus makes it again.")}
	case j == nil:
		return nil
	}
	jumped := fmt.Sprintf(
		"The clock jumped from %s to %s, or the bus was off in between.",
		j.From.UTC().Format(time.RFC3339),
		j.To.UTC().Format(time.RFC3339),
	)
	switch {
	case j.Ended == nil && j.Believed == nil:
		return []tg.Finding{
			warning(jumped+" The activity log keeps its rows as if it had not, until the bus has run for a day.",
				advice),
		}
	case j.Ended != nil && time.Since(*j.Ended) < clockJumpShown:
		return []tg.Finding{warning(fmt.Sprintf("%s It was right again at %s; rows that were written until then have "+
			"wrong times.",
			jumped, j.Ended.UTC().Format(time.RFC3339)), advice)}
	}
	return nil
}

// describeRetention says how long, or up to how many bytes, the log is kept.
func describeRetention(k activitylog.Retention) string {
	switch {
	case k.Forever():
		return "forever"
	case k.Bytes > 0:
		return "up to " + k.String()
	}
	return "for " + k.String()
}

// adviceFor returns the program's usual advice about an error, or the given advice if there is
// none.
func adviceFor(err error, data, otherwise string) string {
	if advice := program.Advice(err, data); advice != "" {
		return sentence(advice)
	}
	return otherwise
}

// sentence capitalizes a text and ends it with a period.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

func formatSize(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MB", n>>20)
}

// checkBus checks that the bus answers.
func checkBus(ctx context.Context, env *program.Env) tg.Finding {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Second, errors.New("no answer within 5s"))
	defer cancel()
	s, err := busclient.Open(ctx, env, busclient.NewID("doctor"))
	if err == nil {
		defer s.Close()
		return ok(fmt.Sprintf("%s answers: %s %s.", s.Bus, s.Server.ServerInfo.Name, s.Server.ServerInfo.Version))
	}
	if known, ok := errors.AsType[*busclient.Error](err); ok && len(env.Buses) == 1 {
		return problem(sentence(known.Reason), sentence(known.Advice))
	}
	return problem(sentence(err.Error()), adviceFor(err, env.Data, "Check --bus, and read the log of the bus."))
}

// checkOutboxes looks for messages that need a person's decision.
func checkOutboxes(ctx context.Context, data string) tg.Finding {
	items, err := deadletter.Folder(data).List(ctx, outbox.StateDead, outbox.StateUnknown)
	switch {
	case errors.Is(err, deadletter.ErrNoProgram):
		return tg.Finding{Level: tg.LevelSkipped, Message: "No program has an outbox in " + data + "."}
	case len(items) > 0:
		says := fmt.Sprintf("Messages that could not be delivered, or whose delivery is uncertain: %d.", len(items))
		if err != nil {
			says += " " + sentence(err.Error())
		}
		return warning(
			says,
			"`hubbub outbox list --dead` shows them with the reasons. Use `hubbub outbox retry` or `hubbub outbox "+
				"drop` for each.",
		)
	case err != nil:
		return warning(sentence(err.Error()), "Run this as the user who runs that program.")
	}
	return ok("No message needs a person.")
}

// spawnerFile is the spawner's database in the data folder.
const spawnerFile = "system.db"

// checkAgents looks for agents that the spawner has given up on.
func checkAgents(ctx context.Context, data string) []tg.Finding {
	path := filepath.Join(data, spawnerFile)
	if !program.FileExists(path) {
		return nil
	}
	failed, coming, err := system.AgentsDown(ctx, path)
	var findings []tg.Finding
	switch {
	case err != nil:
		return []tg.Finding{warning(sentence(err.Error()), "Run this as the user who runs the spawner.")}
	case len(coming) > 0:
		says := fmt.Sprintf("%s should be running but has not reported online", coming[0].Agent)
		if len(coming) > 1 {
			says += fmt.Sprintf(", and %d more", len(coming)-1)
		}
		findings = []tg.Finding{
			warning(says+".", "If this persists, see the log of the spawner, and "+
				agentLog(data, string(coming[0].Name))+"."),
		}
	case len(failed) == 0:
		return []tg.Finding{ok("No agent was given up.")}
	}
	if len(failed) == 0 {
		return findings
	}
	const shown = 3
	var each []string
	for _, g := range failed[:min(len(failed), shown)] {
		each = append(each, fmt.Sprintf("%s (%s)", g.Agent, g.Error))
	}
	if more := len(failed) - shown; more > 0 {
		each = append(each, fmt.Sprintf("%d more", more))
	}
	first := string(failed[0].Name)
	return append(findings, warning("Given up, no longer restarted: "+strings.Join(each, ", ")+".",
		"Read the log of "+first+": "+agentLog(data, first)+". The next message in its chat starts it again."))
}

// agentLog returns the file with an agent's log in the spawner's data folder, or the command that
// shows the log. Agents that run as units of a user have their folders there; units of the system
// do not.
func agentLog(data, name string) string {
	file := filepath.Join(data, "launch", name+".log")
	switch {
	case program.FileExists(file):
		return file
	case program.FileExists(filepath.Join(data, "agents", name)):
		return "journalctl --user --unit hubbub-agent-" + name
	default:
		return "journalctl --unit hubbub-agent-" + name + ", or the terminal where it was started"
	}
}

// maxUndecided bounds how long an event waits for its decision, which takes milliseconds.
const maxUndecided = 30 * time.Second

// checkMailboxes looks for agents that do not decide on events, and for agents whose turns fail.
func checkMailboxes(ctx context.Context, data string, now time.Time) (findings []tg.Finding) {
	for _, pattern := range []string{"agent-*.db", "agents/*/agent-*.db", "chorus/*/agent-*.db"} {
		files, _ := fs.Glob(os.DirFS(data), pattern) // the only possible error is a bad pattern
		for _, file := range files {
			name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "agent-"), ".db")
			if reason, failed, from, err := mailbox.Failing(ctx, filepath.Join(data, file)); err == nil && failed > 0 {
				findings = append(findings, warning(fmt.Sprintf("All turns of agent:%s have failed since %s (%d): %s",
					name, from.Local().Format("2 Jan 15:04 MST"), failed, cmp.Or(text.OneLine(reason), "no reason was recorded.")), "For details, see "+
					agentLog(data, name)+"."))
			}
			count, since, err := mailbox.Undecided(ctx, filepath.Join(data, file))
			if err != nil || count == 0 || now.Sub(since) < maxUndecided {
				continue // another check reports what cannot be read
			}
			says := fmt.Sprintf("agent:%s has decided nothing since %s. Waiting events: %d. Its harness does not "+
				"start, or the agent does not run.",
				name, since.Local().Format("2 Jan 15:04 MST"), count)
			findings = append(findings, problem(says, "For the reason, see "+agentLog(data, name)+"."))
		}
	}
	return findings
}

// bridgeState returns what is known about the bridge of the bot: whether it is connected to the
// bus, and its stored webhook.
func bridgeState(ctx context.Context, env *program.Env, token string) tg.BridgeState {
	bot, err := botapi.BotID(token)
	if err != nil {
		return tg.BridgeState{}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var known tg.BridgeState
	if list, err := busclient.Peers(ctx, env); err == nil {
		known.Runs = slices.ContainsFunc(list, func(p report.Peer) bool { return p.ID == fmt.Sprintf("tg:%d", bot) })
	}
	path := env.DataFile(tg.Database)
	if _, err := os.Stat(path); err != nil {
		return known // no bridge has run here
	}
	if db, err := tg.Open(path); err == nil { // checkDisk reports other errors
		defer db.Close()
		known.Webhook, _ = tg.WebhookOf(ctx, db, bot) //nolint:errcheck // as above
	}
	return known
}

// storedEnv returns the variables that `hubbub up` wrote for the agents. The terminal that runs
// doctor rarely has them.
func storedEnv(data string) []string {
	content, err := os.ReadFile(filepath.Join(data, provision.AgentEnvFile))
	if err != nil {
		return nil // no key was given, or this user may not read it
	}
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

// modelKey returns the key of a model, from the environment or from the variables of the agents.
func modelKey(env *program.Env, variable string) (string, error) {
	stored := storedEnv(env.Data)
	key, err := env.Secret(variable)
	if path := up.LookupEnv(stored, variable+"_FILE"); path != "" && key == "" && err == nil {
		key, err = env.SecretFile(path)
	}
	return cmp.Or(key, up.LookupEnv(stored, variable)), err
}

// checkHarness checks what the agents' harness needs to log in.
func (x *checks) checkHarness(ctx context.Context, env *program.Env) tg.Finding {
	switch x.harness {
	case "":
		for _, name := range []string{"openai", "anthropic"} {
			variable := model.APIs[name].KeyName
			if key, err := modelKey(env, variable); err == nil && key != "" {
				return ok(variable + " is set for --harness " + name + ".")
			}
		}
		return warning("No model key is set: agents run the scripted harness, which follows fixed rules.",
			"Set OPENAI_API_KEY or ANTHROPIC_API_KEY, and choose --harness openai or anthropic for the agents. Or "+
				"use acp with an agent's own login.")
	case "scripted":
		return ok("The scripted harness needs no login.")
	case "openai", "anthropic":
		name := model.APIs[x.harness].KeyName
		key, err := modelKey(env, name)
		switch {
		case err != nil:
			return problem(err.Error(), "Write the key to that file.")
		case key == "" && x.baseURL == "":
			return problem(name+" is not set.", "Set it, or set "+name+"_FILE to the path of a file with the key.")
		}
		return x.checkModel(ctx, key)
	case "acp", "c2a":
		return checkCommand(x.harness, x.harnessCommand)
	case "a2a":
		return ok("The harness a2a needs an address, --a2a-url, and HUBBUB_A2A_TOKEN if the agent requires a token.")
	}
	return problem(
		fmt.Sprintf("Harness %q is unknown.", x.harness),
		"The harnesses are scripted, openai, anthropic, acp, c2a and a2a.",
	)
}

// logins says where known command-line agents keep their login below the home directory, and how
// to log in.
var logins = map[string]struct{ file, how, key string }{
	"claude": {".claude/.credentials.json", "run `claude` once and log in", "ANTHROPIC_API_KEY"},
	"codex":  {".codex/auth.json", "run `codex login`", "OPENAI_API_KEY"},
	"gemini": {".gemini/oauth_creds.json", "run `gemini` once and log in", "GEMINI_API_KEY"},
}

func checkCommand(harness, command string) tg.Finding {
	words, err := subprocess.SplitCommand(command)
	if err != nil {
		return problem("The "+harness+" harness needs a command.", "Name it with --harness-command.")
	}
	path, err := exec.LookPath(words[0])
	if err != nil {
		return problem(
			words[0]+" is not a program that can be started here.",
			"Install it, or give its full path with --harness-command.",
		)
	}
	for _, word := range words {
		name := filepath.Base(word)
		login, known := logins[strings.TrimSuffix(strings.TrimSuffix(name, "-acp"), "-code")]
		home, err := os.UserHomeDir()
		switch {
		case !known || err != nil:
		case program.FileExists(filepath.Join(home, login.file)) || os.Getenv(login.key) != "":
			return ok(name + " has a login.")
		default:
			return problem(name+" does not seem to be logged in for this user.",
				sentence(login.how+", or set "+login.key))
		}
	}
	return ok(path + " can be started. Whether it is logged in cannot be checked.")
}
