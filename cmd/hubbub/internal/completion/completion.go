package completion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Limits of one completion. The shell waits for it while the user types.
const (
	timeout       = time.Second
	scannedRows   = 1000 // newest log rows searched for messages
	maxCandidates = 40
)

// A Source lists the candidates for an argument or a flag. A candidate is a value, optionally followed by
// a tab and a description.
type Source func(cmd *cobra.Command) ([]string, error)

// Fixed returns a source of fixed values.
func Fixed(values ...string) Source {
	return func(*cobra.Command) ([]string, error) { return values, nil }
}

// Concat returns a source that lists the candidates of several sources. It fails only if none of them
// lists a candidate.
func Concat(sources ...Source) Source {
	return func(cmd *cobra.Command) (list []string, err error) {
		for _, source := range sources {
			found, failed := source(cmd)
			list, err = append(list, found...), cmp.Or(err, failed)
		}
		if len(list) > 0 {
			err = nil
		}
		return list, err
	}
}

// Install makes the arguments and flags of a command, and of all commands below it, complete from sources.
// A key of sources is a flag, such as "--peer", or the name of an argument in a command's Use, such as
// "AGENT". If the meaning of an argument depends on the command, its key begins with the command's path:
// "owe close EVENT".
func Install(cmd *cobra.Command, sources map[string]Source) { install(cmd, "", sources) }

func install(cmd *cobra.Command, path string, sources map[string]Source) {
	for _, sub := range cmd.Commands() {
		install(sub, strings.TrimPrefix(path+" "+sub.Name(), " "), sources)
	}
	for _, flags := range []*pflag.FlagSet{cmd.LocalNonPersistentFlags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if source := sources["--"+f.Name]; source != nil {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, complete(source)) // the flag exists
			}
		})
	}
	usage, _, _ := strings.Cut(cmd.Use, " -")
	names := strings.Fields(usage)[1:]
	if len(names) == 0 || cmd.ValidArgsFunction != nil {
		return
	}
	cmd.ValidArgsFunction = func(
		cmd *cobra.Command, args []string, prefix string,
	) ([]string, cobra.ShellCompDirective) {
		name := names[min(len(args), len(names)-1)]
		if len(args) >= len(names) && !strings.Contains(name, "...") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		source := find(sources, path, strings.Trim(name, "[]."))
		if source == nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return complete(source)(cmd, args, prefix)
	}
}

// find returns the source for an argument of the command at a path, or nil.
func find(sources map[string]Source, path, name string) Source {
	group, _, _ := strings.Cut(path, " ")
	for _, key := range []string{path + " " + name, group + " " + name, name} {
		if source := sources[key]; source != nil {
			return source
		}
	}
	return nil
}

// complete returns a completion function that offers the candidates of a source.
func complete(source Source) cobra.CompletionFunc {
	return program.Completing(func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		cmd.SetContext(ctx)
		list, err := source(cmd)
		if err != nil {
			message := err.Error()
			if unreachable, ok := errors.AsType[*busclient.Error](err); ok {
				message, _, _ = strings.Cut(unreachable.Reason, " (")
			}
			return cobra.AppendActiveHelp(nil, term.Printable(message)), cobra.ShellCompDirectiveNoFileComp
		}
		list = slices.DeleteFunc(list, func(candidate string) bool { return !strings.HasPrefix(candidate, prefix) })
		list = list[:min(len(list), maxCandidates)]
		titles := logs.TitlesFor(cmd)
		for i, candidate := range list {
			if value, description, found := strings.Cut(candidate, "\t"); found {
				description = cmp.Or(titles.Title(description), description, titles.Title(value))
				list[i] = strings.TrimRight(value+"\t"+description, "\t")
			}
		}
		return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	})
}

// Append appends a candidate to a list. Peers choose their own ids, and a shell inserts the common prefix
// of several candidates unquoted. Append therefore leaves out values that a shell would interpret or that
// look like a flag.
func Append(list []string, value, description string) []string {
	if strings.HasPrefix(value, "-") || strings.ContainsFunc(value, needsQuoting) {
		return list
	}
	return append(list, value+"\t"+text.Clip(term.Printable(description), 60))
}

func needsQuoting(r rune) bool {
	return text.IsInvisible(r) ||
		!unicode.In(r, unicode.Letter, unicode.Mark, unicode.Digit) && !strings.ContainsRune("._:-@/+,=%", r)
}

// Chats lists the chats of recent messages in the activity log.
func Chats(cmd *cobra.Command) (list []string, err error) {
	all := logs.TitlesFor(cmd).All()
	for _, chat := range slices.Sorted(maps.Keys(all)) {
		list = append(list, Append(nil, string(chat), "")...)
	}
	return list, nil
}

// Connected returns a source of the connected peers with one of the given roles.
func Connected(roles ...protocol.Role) Source {
	return func(cmd *cobra.Command) (list []string, err error) {
		peers, err := busclient.Peers(cmd.Context(), program.From(cmd))
		titles := logs.TitlesFor(cmd)
		for _, p := range peers {
			id := protocol.PeerID(p.ID)
			if id != protocol.PeerSystem && slices.Contains(roles, protocol.RoleOf(id)) {
				list = Append(list, p.ID, cmp.Or(titles.Title(p.ID), "connected"))
			}
		}
		return list, err
	}
}

// silentTypes are the types of messages that carry no text of a person or agent.
var silentTypes = []protocol.MessageType{
	protocol.TypeAgentEvent,
	protocol.TypeCollabRequest,
	protocol.TypeCollabResult,
	protocol.TypeCollabEvent,
}

// Messages lists the latest messages in the activity log, newest first.
func Messages(cmd *cobra.Command) (list []string, err error) {
	var named []string
	if flag := cmd.Flag("log"); flag != nil {
		named, err = cmd.Flags().GetStringArray("log")
	}
	r := read.Open(logs.Paths(program.From(cmd), named)...)
	defer r.Close()
	sent := read.Filter{
		Events:   []activitylog.Event{activitylog.SendStart},
		NotTypes: silentTypes,
		Brief:    true,
	}
	rows, _, readErr := r.Before(cmd.Context(), sent, nil, scannedRows)
	titles := logs.Titles(cmd.Context(), r)
	for i := range slices.Backward(rows) {
		row := &rows[i]
		description := fmt.Sprintf("%s to %s %s", titles.Called(row.Actor), titles.Called(row.Topic),
			view.Full.Row(row))
		list = Append(list, row.MessageID, description)
	}
	return list, cmp.Or(err, readErr)
}
