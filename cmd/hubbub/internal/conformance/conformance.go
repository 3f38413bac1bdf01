package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/peers/agent/harness/conformance"
	"hubbub/peers/agent/harness/subprocess"
	"hubbub/peers/attention"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/transcript"

	"github.com/spf13/cobra"
)

// NewCommand returns the command `hubbub conformance`.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Check a bus, a broker, a harness or Chorus agents",
	}
	cmd.AddCommand(
		newConformanceBus(), newConformanceBroker(), newConformanceC2A(), newConformanceHost(), newConformanceChorus(),
	)
	return cmd
}

func newConformanceBus() *cobra.Command {
	var (
		only        string
		timeout     time.Duration
		show, inUse bool
	)
	cmd := &cobra.Command{
		Use:   "bus",
		Short: "Run the wire transcripts against any bus that speaks the protocol",
		Long: "Run the transcripts of protocol/testdata against the bus of --bus. It prints one line per case\n" +
			"and a count. The bus may be another implementation. It must be open, or the token must grant\n" +
			"every identity. The cases use identities of their own. Nevertheless, a bus that has peers, or is\n" +
			"in a cluster with peers, is refused. With --in-use it is accepted, and the cases are skipped\n" +
			"that would take over agent:system or collab:broker, or receive what others send.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			env := program.From(cmd)
			cases, err := transcript.Load(protocol.Transcripts)
			if err != nil {
				return err
			}
			if show {
				return showTranscripts(cmd.OutOrStdout(), protocol.Transcripts, only)
			}
			token, err := env.Token()
			if err != nil {
				return err
			}
			cases = slices.DeleteFunc(cases, func(c transcript.Case) bool { return !strings.Contains(c.Name, only) })
			if len(cases) == 0 {
				return errNoCase(only)
			}
			if err := busclient.CheckReachable(cmd.Context(), env.Buses[0], token); err != nil {
				return err
			}
			if err := checkIdle(cmd.Context(), env); err != nil && !inUse {
				return err
			}
			t := &results{cmd: cmd, counts: map[string]int{}}
			mark := "conformance-" + rand.Text()[:8] + "-"
			for _, c := range cases {
				c = c.WithPrefix(mark)
				if why := c.Interference(); why != "" && inUse {
					t.add(conformance.Verdict{Case: c.Name, Title: c.Title, Result: conformance.Skipped, Error: why})
					continue
				}
				t.add(runCase(cmd.Context(), &c, timeout, transcript.WebSocket(env.Buses[0], token)))
				if t.err != nil {
					break
				}
			}
			return t.end("")
		},
	}
	cmd.Flags().StringVar(&only, "only", "", "run only the cases whose name contains this")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "timeout of each case")
	cmd.Flags().BoolVar(
		&inUse, "in-use", false, "run although peers are connected to the bus; skip the cases that would disturb them",
	)
	cmd.Flags().BoolVar(&show, "show", false, "print the transcripts instead of running them")
	return cmd
}

func newConformanceBroker() *cobra.Command {
	var (
		only    string
		timeout time.Duration
		show    bool
	)
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run the cases of the collaboration contract against any broker",
		Long: "Run the cases of the collaboration contract against collab:broker on the bus of --bus. It prints\n" +
			"one line per case and a count. The broker may be another implementation. The bus must be open,\n" +
			"or the token must grant every identity. The cases use identities, names and IDs of their own and\n" +
			"disturb nobody, but the records that they make stay in the broker.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			env := program.From(cmd)
			cases, err := transcript.Load(collab.Transcripts)
			if err != nil {
				return err
			}
			if show {
				return showTranscripts(cmd.OutOrStdout(), collab.Transcripts, only)
			}
			token, err := env.Token()
			if err != nil {
				return err
			}
			if err := busclient.CheckReachable(cmd.Context(), env.Buses[0], token); err != nil {
				return err
			}
			t := &results{cmd: cmd, counts: map[string]int{}}
			mark := "conformance-" + strings.ToLower(rand.Text()[:8]) + "-"
			for i, c := range cases {
				if !strings.Contains(c.Name, only) || t.err != nil {
					continue
				}
				c = c.WithPrefix(fmt.Sprint(mark, i, "-"))
				t.add(runCase(cmd.Context(), &c, timeout, transcript.WebSocket(env.Buses[0], token)))
			}
			return t.end(only)
		},
	}
	cmd.Flags().StringVar(&only, "only", "", "run only the cases whose name contains this")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "timeout of each case")
	cmd.Flags().BoolVar(&show, "show", false, "print the cases instead of running them")
	return cmd
}

// checkIdle returns an error if the bus, or another bus of its cluster, has peers: an identity
// exists only once in a cluster. A bus that does not report presence counts as idle.
func checkIdle(ctx context.Context, env *program.Env) error {
	list := connectedPeers(ctx, env)
	if len(list) == 0 {
		return nil
	}
	return program.Usage(
		"the bus at %s is in use: %s is connected, and %d peers in all; use another bus, or give --in-use to skip "+
			"the cases that would disturb them",
		env.Buses[0],
		list[0],
		len(list),
	)
}

// connectedPeers returns the peers of the first bus and of its cluster.
func connectedPeers(ctx context.Context, env *program.Env) (list []protocol.PeerID) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	options := env.PeerOptions()
	options.Buses, options.Log = env.Buses[:1], nil
	id := busclient.NewID("conformance")
	p := peer.New(id, options)
	p.HandlePresence(func(news protocol.Presence) {
		if news.Peer == id { // the last one
			stop()
		} else if news.State == protocol.PresenceJoined {
			list = append(list, news.Peer)
		}
	})
	_ = p.Run(ctx) // a bus without presence reports nothing
	return list
}

// errNoCase returns the error for a filter that selects no case: a run that tests nothing must
// not succeed.
func errNoCase(only string) error {
	return program.Usage("no case has %q in its name; without --only, every case runs", only)
}

// results prints the result of each case and counts them.
type results struct {
	cmd    *cobra.Command
	counts map[string]int
	err    error // of printing
}

func (t *results) add(v conformance.Verdict) {
	t.counts[v.Result]++
	if t.err != nil {
		return
	}
	text := fmt.Sprintf("%-8s %-28s %s", v.Result, v.Case, v.Title)
	if v.Error != "" {
		text += strings.ReplaceAll("\n"+v.Error, "\n", "\n         ")
	}
	t.err = output.Line(t.cmd, v, "%s", text)
}

// end prints the counts. It returns an error if a case failed or none ran.
func (t *results) end(only string) error {
	passed, failed := t.counts[conformance.OK], t.counts[conformance.Failed]
	switch {
	case t.err != nil:
		return t.err
	case len(t.counts) == 0:
		return errNoCase(only)
	case !output.WantsJSON(t.cmd):
		fmt.Fprintf(t.cmd.OutOrStdout(), "%d passed, %d failed, %d skipped\n", passed, failed,
			t.counts[conformance.Skipped])
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cases failed", failed, failed+passed)
	}
	return nil
}

// runCase runs one case.
func runCase(
	ctx context.Context, c *transcript.Case, timeout time.Duration, dial transcript.Dialer,
) conformance.Verdict {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer c.Disconnect(ctx, dial)
	v := conformance.Verdict{Case: c.Name, Title: c.Title, Result: conformance.OK}
	if err := c.Run(ctx, dial); err != nil {
		v.Result, v.Error = conformance.Failed, err.Error()
		if errors.Is(err, transcript.ErrSkipped) {
			v.Result = conformance.Skipped
		}
	}
	return v
}

func showTranscripts(w io.Writer, files fs.FS, only string) error {
	names, err := fs.Glob(files, "testdata/*.txt")
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.Contains(name, only) {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "=== %s\n%s\n", name, text)
	}
	return nil
}

func newConformanceC2A() *cobra.Command {
	var (
		command, only, version string
		timeout, quiet         time.Duration
	)
	cmd := &cobra.Command{
		Use:   "c2a",
		Short: "Run the attention vectors against a C2A program, or our rules",
		Long: "Run the attention vectors, in all drafts of C2A, against the program of --harness-command. The\n" +
			"command plays the host, the chat and its tools, and checks when the program speaks and when it\n" +
			"stays silent. Without --harness-command it checks the rules of Hubbub's own agents. It prints\n" +
			"one line per case and a count.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts := &conformance.Options{Only: only, Timeout: timeout, Quiet: quiet, Log: &program.From(cmd).Log}
			if version != "" {
				v, err := attention.ParseVersion(version)
				if err != nil {
					return program.Usage("--policy-version: %s", err)
				}
				opts.Versions = []attention.Version{v}
			}
			if timeout <= 0 || quiet <= 0 {
				return program.Usage("--timeout and --quiet must be above 0")
			}
			return conformC2A(cmd, command, opts)
		},
	}
	cmd.Flags().StringVar(&command, "harness-command", "",
		"the program to check, as shell words; it runs without a shell")
	cmd.Flags().StringVar(&only, "only", "", "run only the cases whose name or title contains this")
	cmd.Flags().StringVar(&version, "policy-version", "", "check only this draft: 2026-06-02, 2026-06-24 or 2026-08-11")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "timeout of each answer and each obligation")
	cmd.Flags().DurationVar(&quiet, "quiet", 2*time.Second, "how long to wait before silence counts")
	return cmd
}

func conformC2A(cmd *cobra.Command, command string, opts *conformance.Options) error {
	t := &results{cmd: cmd, counts: map[string]int{}}
	var err error
	if strings.TrimSpace(command) == "" {
		err = conformance.Host(opts, t.add)
	} else {
		argv, split := subprocess.SplitCommand(command)
		if split != nil {
			return program.Usage("--harness-command: %s", split)
		}
		err = conformance.Program(cmd.Context(), argv, opts, t.add)
	}
	if err != nil {
		return err
	}
	return t.end(opts.Only)
}
