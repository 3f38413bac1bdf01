package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// printResult prints a result: as one line of JSON with --json, and otherwise as print does.
func printResult(cmd *cobra.Command, result any, print func(io.Writer) error) error {
	out := cmd.OutOrStdout()
	if asJSON(cmd) {
		return jsonLines(out).Encode(result)
	}
	return print(out)
}

// printLine is printResult for a result that one sentence tells.
func printLine(cmd *cobra.Command, result any, format string, args ...any) error {
	return printResult(cmd, result, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		return err
	})
}

// printAll prints a list: with --json a line for each, and otherwise as print does.
// An empty list is told as none.
func printAll[T any](cmd *cobra.Command, list []T, none string, print func(io.Writer, []T) error) error {
	out := cmd.OutOrStdout()
	switch {
	case asJSON(cmd):
		return printJSON(out, list)
	case len(list) == 0:
		_, err := fmt.Fprintln(out, none)
		return err
	}
	return print(out, list)
}

// printTable prints a list in columns with the names in head.
func printTable[T any](w io.Writer, head []any, list []T, row func(T) []any) error {
	rows := [][]any{head}
	for _, item := range list {
		rows = append(rows, row(item))
	}
	return printRows(w, rows)
}

// printRows prints rows in columns.
func printRows(w io.Writer, rows [][]any) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintf(t, strings.Repeat("%v\t", len(cells)-1)+"%v\n", cells...)
	}
	return t.Flush()
}

// printJSON prints values as JSON, one a line.
func printJSON[T any](w io.Writer, list []T) error {
	enc := jsonLines(w)
	for i := range list {
		if err := enc.Encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

// jsonLines makes an encoder that writes one value a line.
func jsonLines(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(jsonWriter{w})
	enc.SetEscapeHTML(false)
	return enc
}

// A jsonWriter takes whole JSON values and writes them so that a terminal shows
// them: it escapes what JSON may hold as it is and what would command a terminal or
// turn the direction of writing. The values stay the same.
type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(values []byte) (int, error) {
	n := len(values)
	if bytes.ContainsFunc(values, commandsTerminal) {
		values = escaped(values)
	}
	if _, err := j.w.Write(values); err != nil {
		return 0, err
	}
	return n, nil
}

func escaped(values []byte) []byte {
	safe := make([]byte, 0, len(values)+64)
	for len(values) > 0 {
		r, size := utf8.DecodeRune(values)
		if commandsTerminal(r) { // only strings can hold it
			safe = fmt.Appendf(safe, `\u%04x`, r)
		} else {
			safe = append(safe, values[:size]...)
		}
		values = values[size:]
	}
	return safe
}

func commandsTerminal(r rune) bool {
	return r >= 0x7f && (r <= 0x9f || unicode.Is(unicode.Bidi_Control, r))
}
