package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"hubbub/cmd/internal/term"
	"hubbub/protocol/datafolder"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Usage makes a usage error. The program exits with 2.
func Usage(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

// EachAlone refuses several patterns in one argument, which would match nothing.
func EachAlone(patterns []string, advice string) error {
	for _, p := range patterns {
		if strings.ContainsAny(p, " \t,") {
			return Usage("%q is one pattern with a space or a comma in it: %s", p, advice)
		}
	}
	return nil
}

type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// wrong marks an error as caused by wrong settings. The program exits with 2, unless the error is
// retryable.
func wrong(err error) error {
	if _, usage := errors.AsType[*usageError](err); usage || IsRetryable(err) || errors.Is(err, context.Canceled) {
		return err
	}
	return Usage("%w", err)
}

// Retryable marks an error that may disappear without a change to the settings, such as a file
// that is still empty. The program exits with 1 even if [Usage] wraps the error, so that its
// supervisor starts it again.
func Retryable(err error) error { return &retryableError{err} }

type retryableError struct{ err error }

func (e *retryableError) Error() string { return e.err.Error() }
func (e *retryableError) Unwrap() error { return e.err }

// IsRetryable reports whether err was marked by Retryable, or comes from the operating system or a
// name server: a missing file, an address in use, too many open files, a full disk.
func IsRetryable(err error) bool {
	_, marked := errors.AsType[*retryableError](err)
	_, system := errors.AsType[syscall.Errno](err)
	_, lookup := errors.AsType[*net.DNSError](err)
	return marked || system || lookup
}

// CheckFile returns why the file in a flag cannot be opened, if the flag names one.
func CheckFile(flag, path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return Usage("--%s: %w", flag, err)
	}
	return f.Close()
}

// CheckAddress refuses addresses in a flag at which no program could ever listen.
func CheckAddress(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		return Usage("--%s %q is not an address and a port such as 127.0.0.1:7892", flag, address)
	}
	return nil
}

// CheckURLs refuses values of flags that are neither empty nor an address of HTTP. pairs has each flag
// and its value.
func CheckURLs(pairs ...string) error {
	for pair := range slices.Chunk(pairs, 2) {
		u, err := url.Parse(pair[1])
		if pair[1] != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return Usage("--%s %q is not an address such as https://hubbub.example.com", pair[0], pair[1])
		}
	}
	return nil
}

// refuseFlag explains an error of a command line flag.
func refuseFlag(err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return Usage("--%s: %s", invalid.GetFlag().Name,
			refuseValue(invalid.GetFlag(), invalid.GetValue(), invalid.Unwrap()))
	}
	return Usage("%s", err)
}

// refuseValue explains which values a flag accepts, whatever the source of the wrong one.
func refuseValue(f *pflag.Flag, value string, err error) error {
	number, ok := errors.AsType[*strconv.NumError](err)
	if ok {
		value = number.Num // the wrong one of a list
	}
	switch kind := f.Value.Type(); {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%q is too large or too small", value)
	case kind == "bool":
		return fmt.Errorf("%q is neither true nor false", value)
	case kind == "duration":
		return fmt.Errorf("%q is not a duration such as 500ms, 30s, 15m or 12h", value)
	case kind == "float64":
		return fmt.Errorf("%q is not a number", value)
	case ok:
		return fmt.Errorf("%q is not a whole number", value)
	default:
		return fmt.Errorf("%q is not valid: %w", value, err)
	}
}

// explainCalls makes each command of a tree explain wrong calls. By default, a command that only
// groups others would show its help and succeed when called with an unknown one. refuse gets that
// error instead.
func explainCalls(root *cobra.Command, refuse func(error)) {
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return refuseFlag(err) })
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		asked := cmd.Flags().Changed("help")
		if rest := cmd.Flags().Args(); !asked && !cmd.Runnable() && cmd.HasParent() && len(rest) > 0 {
			refuse(unknownCommand(cmd, rest[0]))
			return
		}
		if err := showHelp(cmd, args, help); err != nil {
			refuse(err)
		}
	})
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			if cmd.RunE == nil {
				cmd.RunE = HelpOn
			}
			cmd.Run = nil
		}
	}
}

// countArguments makes each command of a tree take the arguments in its Use, unless it has Args
// of its own, and explain other numbers of arguments.
func countArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		countArguments(sub)
	}
	if !cmd.Runnable() {
		return
	}
	count, needed := cmd.Args, neededArguments(cmd.Use)
	switch {
	case count != nil:
	case strings.Contains(cmd.Use, "..."):
		count = cobra.MinimumNArgs(len(needed))
	default:
		optional, _, _ := strings.Cut(cmd.Use, " -")
		count = cobra.RangeArgs(len(needed), len(needed)+strings.Count(optional, "["))
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := count(cmd, args)
		switch {
		case err == nil:
			return nil
		case len(args) < len(needed):
			return Usage("%s is missing: %s", needed[len(args)], cmd.UseLine())
		case cmd.HasAvailableSubCommands() && len(args) > 0:
			return unknownCommand(cmd, args[0])
		case !strings.ContainsAny(strings.TrimPrefix(cmd.Use, cmd.Name()), "[ "):
			return Usage("%s takes no arguments: %q", nameIn(cmd), args[0])
		default:
			return Usage("%q is one argument too many: %s", args[len(args)-1], cmd.UseLine())
		}
	}
}

// neededArguments returns the required arguments of a command: those at the beginning of its Use.
func neededArguments(use string) []string {
	var names []string
	for _, word := range strings.Fields(use)[1:] {
		if word[0] == '[' || word[0] == '-' {
			break
		}
		names = append(names, strings.TrimSuffix(word, "..."))
	}
	return names
}

func unknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2 // the default of cobra for the root command
	text := fmt.Sprintf("%s has no command %q", nameIn(cmd), name)
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return Usage("%s", text)
}

// nameIn returns the name of a command without that of the program.
func nameIn(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// HelpOn is the command help. It fails if there is no command of that name.
func HelpOn(cmd *cobra.Command, args []string) error {
	about, rest, err := cmd.Root().Find(args)
	switch {
	case err != nil:
		return unknownCommand(cmd.Root(), args[0])
	case len(rest) > 0 && about.HasAvailableSubCommands():
		return unknownCommand(about, rest[0])
	}
	about.InitDefaultHelpFlag()
	return about.Help()
}

// Advice returns advice on an error, such as the owner of a file without permission. It is empty
// if there is none. The data folder is empty if it is not known.
func Advice(err error, data string) string {
	if denied, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrPermission) {
		return adviceFor(denied.Path, data, os.Geteuid())
	}
	switch {
	case errors.Is(err, syscall.EROFS):
		return "nothing can be written there: name a writable folder with --data, such as a copy of this one; hubbub " +
			"tail, why and log read it where it is"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "allow more open files, with ulimit -n or LimitNOFILE= of systemd"
	}
	return ""
}

// adviceFor names the user that may access a path that this user may not. The owner of the data
// folder cannot be another user, because root works there as its owner, too.
func adviceFor(path, data string, self int) string {
	for {
		info, err := os.Lstat(path)
		if err == nil {
			stat, ok := info.Sys().(*syscall.Stat_t)
			if !ok || int(stat.Uid) == self || stat.Uid == 0 && info.IsDir() && info.Mode().Perm()&0o005 != 0 {
				return "" // the mode is the reason, or everybody may read the folder
			}
			owner := datafolder.UserName(stat.Uid)
			if stat.Uid == 0 && owns(self, data) {
				return fmt.Sprintf("%s belongs to %s, who works on %s only as its owner: give %s access or a copy, "+
					"or name another folder with --data",
					path, owner, data, datafolder.UserName(uint32(self)))
			}
			return fmt.Sprintf("%s belongs to %s: run this as that user (sudo -u %s ...), or name another folder "+
				"with --data",
				path, owner, owner)
		}
		if filepath.Dir(path) == path {
			return ""
		}
		path = filepath.Dir(path)
	}
}

// owns reports whether a user owns a folder, or the one in which it would be made.
func owns(user int, folder string) bool {
	for folder != "" {
		info, err := os.Stat(folder)
		if err == nil {
			stat, ok := info.Sys().(*syscall.Stat_t)
			return ok && int(stat.Uid) == user
		}
		if filepath.Dir(folder) == folder {
			return false
		}
		folder = filepath.Dir(folder)
	}
	return false
}

// terminalWidth is the width of help in characters, unless the terminal is narrower.
const terminalWidth = 80

// helpWidth returns the width of help at w.
func helpWidth(w io.Writer) int {
	if n := term.Columns(w); n > 0 {
		return min(n, terminalWidth)
	}
	return terminalWidth
}

// foldFlags sets the width to which a tree of commands wraps the help on flags.
func foldFlags(root *cobra.Command, width int) {
	template := new(cobra.Command).UsageTemplate()
	root.SetUsageTemplate(strings.ReplaceAll(template, "FlagUsages", fmt.Sprintf("FlagUsagesWrapped %d", width)))
}

// showHelp shows the help of a command, wrapped to the width of the terminal.
func showHelp(cmd *cobra.Command, args []string, help func(*cobra.Command, []string)) error {
	out := cmd.OutOrStdout()
	width := helpWidth(out)
	cmd.Long = term.Fold(cmd.Long, terminalWidth)
	if width != terminalWidth {
		foldFlags(cmd.Root(), width)
	}
	var whole bytes.Buffer
	cmd.SetOut(&whole)
	help(cmd, args)
	cmd.SetOut(out)
	text := whole.String()
	if width != terminalWidth {
		text = term.Fold(text, width)
	}
	_, err := io.WriteString(out, text)
	return err
}
