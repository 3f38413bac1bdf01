package main

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
	"hubbub/activitylog/view"
	"hubbub/cmd/internal/deadletter"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/peers/outbox"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Bounds of what a shell is offered, which must not keep who types waiting.
const (
	completeTime = time.Second
	completeRows = 1000 // of the log that are read for messages
	maxOffered   = 40
)

// A source gives what an argument or a flag may be, each with a word about it behind a tab.
type source func(cmd *cobra.Command) ([]string, error)

// candidates are the sources. Their keys are the names of arguments in Use, with the commands
// before them where the name alone does not say what it is, and flags.
var candidates = map[string]source{
	"EVENT":             together(lastMessages, openWork),
	"owe close EVENT":   owed,
	"MESSAGE":           lastMessages,
	"AGENT":             connected(protocol.RoleAgent),
	"CHAT|AGENT":        together(connected(protocol.RoleAgent), chats),
	"TOPIC":             together(connected(protocol.RoleAgent), chats),
	"CONVERSATION":      chats,
	"conversation ID":   chats,
	"ITEM":              undelivered,
	"REMINDER":          pendingReminders,
	"hook rotate NAME":  hookNames,
	"hook remove NAME":  hookNames,
	"token revoke NAME": tokenNames,
	"WHO":               known(""),
	"LABEL":             known("@"),
	"ask NAME":          known(""),
	"invoke NAME":       known(""),
	"work assign NAME":  known(""),
	"work ID":           openWork,
	"work answer ID":    openQuestions,
	"work close ID":     openQuestions,
	"decisions ID": broker(collab.DecisionList, collab.ApprovalListParams{}, func(a *collab.Approval) (string, string, bool) {
		return a.ID, a.Tool + " " + a.Describe(), a.Open()
	}),

	"--peer":         together(connected(protocol.RoleAgent, protocol.RoleTG, protocol.RoleChorus, protocol.RoleBroker), chats),
	"--topic":        together(connected(protocol.RoleAgent, protocol.RoleTG, protocol.RoleChorus, protocol.RoleBroker), chats),
	"--chat":         chats,
	"--owner":        known(""),
	"--next":         known(""),
	"--on":           known(""),
	"--master":       known(""),
	"--work":         openWork,
	"--parent":       openWork,
	"--conversation": chats,
	"--lang":         fixed("ts", "py", "go", "sh"),
	"--scope":        fixed("once", "session", "always"),
	"--priority":     fixed("low", "normal", "high", "urgent"),
}

func fixed(list ...string) source {
	return func(*cobra.Command) ([]string, error) { return list, nil }
}

// together gives what several sources give, and an error if none gives anything.
func together(all ...source) source {
	return func(cmd *cobra.Command) (list []string, err error) {
		for _, from := range all {
			found, failed := from(cmd)
			list, err = append(list, found...), cmp.Or(err, failed)
		}
		if len(list) > 0 {
			err = nil
		}
		return list, err
	}
}

// known gives the agents that the broker knows, with something before each.
func known(before string) source {
	told := map[string]bool{} // an agent that was started again has several endpoints
	return broker(collab.IdentityList, collab.PageParams{}, func(e *collab.Endpoint) (string, string, bool) {
		again := told[e.LogicalAgentID]
		told[e.LogicalAgentID] = true
		return before + e.LogicalAgentID, "agent:" + e.LogicalAgentID, !again
	})
}

var (
	openWork = broker(collab.WorkList, collab.WorkListParams{}, func(w *collab.WorkItem) (string, string, bool) {
		return w.ID, w.Title, !w.Terminal()
	})
	openQuestions = broker(collab.QuestionList, collab.QuestionListParams{}, func(q *collab.Question) (string, string, bool) {
		return q.ID, q.Title, !q.Terminal()
	})
	owed = broker(collab.ObligationList, collab.ObligationListParams{}, func(o *collab.Obligation) (string, string, bool) {
		return o.ID, o.Title, o.Kind == collab.KindObligation
	})
)

// chats gives the chats in which something was said lately.
func chats(cmd *cobra.Command) (list []string, err error) {
	all := titlesHere(cmd).All()
	for _, chat := range slices.Sorted(maps.Keys(all)) {
		list = append(list, offer(nil, string(chat), "")...)
	}
	return list, nil
}

// completeArguments has shells complete the arguments and flags of all commands that have
// candidates.
func completeArguments(cmd *cobra.Command, path string) {
	for _, sub := range cmd.Commands() {
		completeArguments(sub, strings.TrimPrefix(path+" "+sub.Name(), " "))
	}
	for _, flags := range []*pflag.FlagSet{cmd.LocalNonPersistentFlags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if from := candidates["--"+f.Name]; from != nil {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, completing(from)) // the flag exists
			}
		})
	}
	words, _, _ := strings.Cut(cmd.Use, " -")
	names := strings.Fields(words)[1:]
	if len(names) == 0 || cmd.ValidArgsFunction != nil {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		name := names[min(len(args), len(names)-1)]
		if len(args) >= len(names) && !strings.Contains(name, "...") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		from := candidatesFor(path, strings.Trim(name, "[]."))
		if from == nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return completing(from)(cmd, args, begun)
	}
}

// completing offers a shell what a source gives.
func completing(from source) cobra.CompletionFunc {
	return program.Completing(func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		cmd.SetContext(ctx)
		list, err := from(cmd)
		if err != nil {
			said := err.Error()
			if away, ok := errors.AsType[*busError](err); ok {
				said, _, _ = strings.Cut(away.says, " (")
			}
			return cobra.AppendActiveHelp(nil, term.Printable(said)), cobra.ShellCompDirectiveNoFileComp
		}
		list = slices.DeleteFunc(list, func(candidate string) bool { return !strings.HasPrefix(candidate, begun) })
		list = list[:min(len(list), maxOffered)]
		titles := titlesHere(cmd)
		for i, candidate := range list {
			if id, about, told := strings.Cut(candidate, "\t"); told {
				list[i] = strings.TrimRight(id+"\t"+cmp.Or(titles.Title(about), about, titles.Title(id)), "\t")
			}
		}
		return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	})
}

// candidatesFor returns the source of an argument of the command at a path, or nil.
func candidatesFor(path, name string) source {
	above, _, _ := strings.Cut(path, " ")
	for _, key := range []string{path + " " + name, above + " " + name, name} {
		if from := candidates[key]; from != nil {
			return from
		}
	}
	return nil
}

// offer adds a candidate to a list: a value and what it is. Peers choose ids, and shells put what
// several candidates begin with on the line as it stands: one that means something to a
// shell, or to us as a flag, is not offered.
func offer(list []string, value, about string) []string {
	if strings.HasPrefix(value, "-") || strings.ContainsFunc(value, isForShells) {
		return list
	}
	return append(list, value+"\t"+text.Clip(term.Printable(about), 60))
}

func isForShells(r rune) bool {
	return !unicode.In(r, unicode.Letter, unicode.Mark, unicode.Digit) && !strings.ContainsRune("._:-@/+,=%", r) || text.Unseen(r)
}

// connected gives who is on the bus in one of some roles.
func connected(roles ...protocol.Role) source {
	return func(cmd *cobra.Command) (list []string, err error) {
		peers, err := fetchPeers(cmd.Context(), program.From(cmd))
		titles := titlesHere(cmd)
		for _, p := range peers {
			for _, role := range roles {
				if protocol.RoleOf(protocol.PeerID(p.ID)) == role && protocol.PeerID(p.ID) != protocol.PeerSystem {
					list = offer(list, p.ID, cmp.Or(titles.Title(p.ID), "connected"))
				}
			}
		}
		return list, err
	}
}

// asides are the types of messages in which nobody says anything.
var asides = []protocol.MessageType{protocol.TypeAgentEvent, protocol.TypeCollabRequest, protocol.TypeCollabResult, protocol.TypeCollabEvent}

// lastMessages gives what was said last, the newest first.
func lastMessages(cmd *cobra.Command) (list []string, err error) {
	var named []string
	if flag := cmd.Flag("log"); flag != nil {
		named, err = cmd.Flags().GetStringArray("log")
	}
	r := activitylog.Open(logPaths(program.From(cmd), named)...)
	defer r.Close()
	rows, _, read := r.Before(cmd.Context(), activitylog.Filter{Events: []activitylog.Event{activitylog.SendStart}, NotTypes: asides, Brief: true}, nil, completeRows)
	titles := titlesIn(cmd.Context(), r)
	for i := len(rows) - 1; i >= 0; i-- {
		about := fmt.Sprintf("%s to %s %s", titles.Called(rows[i].Actor), titles.Called(rows[i].Topic), view.Full.Row(&rows[i]))
		list = offer(list, rows[i].MessageID, about)
	}
	if err == nil {
		err = read
	}
	return list, err
}

// undelivered gives the dead letters and what nobody knows whether it arrived.
func undelivered(cmd *cobra.Command) (list []string, err error) {
	items, err := deadletter.Folder(program.From(cmd).Data).List(cmd.Context(), outbox.StateDead, outbox.StateUnknown)
	for _, item := range items {
		list = offer(list, item.Name(), string(item.State)+" "+item.Destination)
	}
	return list, err
}

func tokenNames(cmd *cobra.Command) (list []string, err error) {
	file, err := credentials(cmd)
	if err != nil {
		return nil, err
	}
	for _, c := range file.List() {
		list = offer(list, c.Name, strings.Join(c.Identities, " "))
	}
	return list, nil
}

// broker gives records of the broker that are still to be seen to.
func broker[P, T any, PP interface {
	*P
	SetAfter(next string)
}](m collab.Method[P, collab.Page[T]], params P, describe func(*T) (id, about string, open bool)) source {
	return func(cmd *cobra.Command) (list []string, err error) {
		ask := brokerCommand{run: func(ctx context.Context, in *brokerInput) error {
			all, err := pages[P, T, PP](ctx, in, m, params)
			for _, listed := range all {
				record, unread := listed.Read()
				if unread != nil {
					return unread
				}
				if id, about, open := describe(&record); open {
					list = offer(list, id, about)
				}
			}
			return err
		}}
		return list, ask.connect(cmd.Context(), &brokerInput{Command: cmd})
	}
}
