package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"hubbub/activitylog"
	"hubbub/bus/report"
	"hubbub/cmd/internal/letters"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/screen"
	"hubbub/peers/outbox"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

// Bounds of what a shell is offered, which must not keep who types waiting.
const (
	completeTime = 3 * time.Second
	completeRows = 200 // of the log that are read for messages
)

// candidates give what an argument may be, each with a word about it behind a tab. Their keys
// are the names of arguments in Use, with the commands before them where the name alone does
// not say what it is.
var candidates = map[string]func(cmd *cobra.Command) ([]string, error){
	"EVENT":             lastMessages,
	"MESSAGE":           lastMessages,
	"AGENT":             connected(protocol.RoleAgent),
	"CHAT|AGENT":        connected(protocol.RoleAgent, protocol.RoleTG, protocol.RoleChorus),
	"TOPIC":             connected(protocol.RoleAgent, protocol.RoleTG, protocol.RoleChorus),
	"ITEM":              undelivered,
	"REMINDER":          pendingReminders,
	"hook rotate NAME":  hookNames,
	"hook remove NAME":  hookNames,
	"token revoke NAME": tokenNames,
	"WHO":               known,
	"ask NAME":          known,
	"invoke NAME":       known,
	"work NAME":         known,
	"work ID": broker(collab.WorkList, collab.WorkListParams{}, func(w *collab.WorkItem) (string, string, bool) {
		return w.ID, w.Title, !w.Terminal()
	}),
	"decisions ID": broker(collab.DecisionList, collab.ApprovalListParams{}, func(a *collab.Approval) (string, string, bool) {
		return a.ID, a.Tool + " " + a.How(), a.Open()
	}),
}

// known gives the agents that the broker knows.
var known = broker(collab.IdentityList, collab.PageParams{}, func(e *collab.Endpoint) (string, string, bool) {
	return e.LogicalAgentID, string(e.Status), true
})

// completeArguments has shells complete the arguments of all commands that have candidates.
func completeArguments(cmd *cobra.Command, path string) {
	for _, sub := range cmd.Commands() {
		completeArguments(sub, strings.TrimPrefix(path+" "+sub.Name(), " "))
	}
	words, _, _ := strings.Cut(cmd.Use, " -")
	names := strings.Fields(words)[1:]
	if len(names) == 0 || cmd.ValidArgsFunction != nil {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		name := names[min(len(args), len(names)-1)]
		if len(args) >= len(names) && !strings.Contains(name, "...") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		from := candidatesFor(path, strings.Trim(name, "[]."))
		if from == nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		cmd.SetContext(ctx)
		list, err := from(cmd)
		if err != nil {
			return cobra.AppendActiveHelp(nil, screen.Printable(err.Error())), cobra.ShellCompDirectiveNoFileComp
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

// candidatesFor returns what gives the candidates of an argument of the command at a path, or
// nil.
func candidatesFor(path, name string) func(*cobra.Command) ([]string, error) {
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
	return append(list, value+"\t"+text.Clip(screen.Printable(about), 60))
}

func isForShells(r rune) bool {
	return !unicode.In(r, unicode.Letter, unicode.Mark, unicode.Digit) && !strings.ContainsRune("._:-@/+,=%", r) || text.Unseen(r)
}

// connected gives who is on the bus in one of some roles.
func connected(roles ...protocol.Role) func(cmd *cobra.Command) ([]string, error) {
	return func(cmd *cobra.Command) (list []string, err error) {
		raw, _, err := fetch(cmd.Context(), program.From(cmd), http.MethodGet, "/peers", describeGet)
		var peers []report.Peer
		if err == nil {
			err = json.Unmarshal(raw, &peers)
		}
		for _, p := range peers {
			for _, role := range roles {
				if protocol.RoleOf(protocol.PeerID(p.ID)) == role && protocol.PeerID(p.ID) != protocol.PeerSystem {
					list = offer(list, p.ID, "connected")
				}
			}
		}
		return list, err
	}
}

// lastMessages gives the messages that were sent last, the newest first.
func lastMessages(cmd *cobra.Command) (list []string, err error) {
	var named []string
	if flag := cmd.Flag("log"); flag != nil {
		named, err = cmd.Flags().GetStringArray("log")
	}
	r := activitylog.Open(logPaths(program.From(cmd), named)...)
	defer r.Close()
	rows, _, read := r.Before(cmd.Context(), activitylog.Filter{Events: []activitylog.Event{activitylog.SendStart}}, nil, completeRows)
	for i := len(rows) - 1; i >= 0; i-- {
		list = offer(list, rows[i].MessageID, fmt.Sprintf("%s to %s", rows[i].Actor, rows[i].Topic))
	}
	if err == nil {
		err = read
	}
	return list, err
}

// undelivered gives the dead letters and what nobody knows whether it arrived.
func undelivered(cmd *cobra.Command) (list []string, err error) {
	items, err := letters.Folder(program.From(cmd).Data).List(cmd.Context(), outbox.StateDead, outbox.StateUnknown)
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
}](m collab.Method[P, collab.Page[T]], params P, describe func(*T) (id, about string, open bool)) func(cmd *cobra.Command) ([]string, error) {
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
