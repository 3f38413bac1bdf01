package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"hubbub/cmd/internal/term"

	"github.com/spf13/cobra"
)

// A printer prints the results of a command, for people or as JSON, and keeps its
// first error.
type printer struct {
	term.Painter
	columns int  // of the terminal; 0 if there is none
	json    bool // the user asked for JSON
	w       io.Writer
	err     error
}

func newPrinter(cmd *cobra.Command) *printer {
	w := cmd.OutOrStdout()
	return &printer{Painter: term.NewPainter(w), columns: term.Columns(w), json: asJSON(cmd), w: w}
}

// line prints a line for people, folded where the terminal is narrow.
func (p *printer) line(format string, args ...any) {
	words := fmt.Sprintf(format, args...)
	if p.columns > 0 && !p.json {
		lines := strings.Split(words, "\n")
		for i, line := range lines {
			if line = strings.TrimRight(line, " "); term.Fit(line, p.columns) != line {
				rest := strings.TrimLeft(line, " ")
				line = term.Hang(line[:len(line)-len(rest)], rest, p.columns)
			}
			lines[i] = line
		}
		words = strings.Join(lines, "\n")
	}
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, words)
	}
}

// value prints a value as a line of JSON.
func (p *printer) value(v any) {
	if p.err == nil {
		p.err = jsonLines(p.w).Encode(v)
	}
}

// rows prints rows in columns, below the first, which names them. Where a terminal is too
// narrow for that, each row is folded.
func (p *printer) rows(rows [][]any) {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintf(t, strings.Repeat("%v\t", len(cells)-1)+"%v\n", cells...)
	}
	p.err = cmp.Or(p.err, t.Flush())
	for line := range strings.Lines(b.String()) {
		if p.columns > 0 && term.Width(strings.TrimRight(line, " \n")) > p.columns {
			p.folded(rows)
			return
		}
	}
	p.line("%s", strings.TrimSuffix(b.String(), "\n"))
}

// folded prints rows on a narrow terminal: the first cell of each, and below it the others
// that are not empty, behind the names of their columns.
func (p *printer) folded(rows [][]any) {
	for _, cells := range rows[1:] {
		p.line("%s", strings.Join(term.Wrap(fmt.Sprint(cells[0]), p.columns), "\n"))
		var told []string
		for i, cell := range cells[1:] {
			if words := strings.TrimSpace(fmt.Sprint(cell)); words != "" && words != "-" {
				told = append(told, strings.ToLower(fmt.Sprint(rows[0][i+1]))+"\u00a0"+words) // in one line
			}
		}
		for _, line := range term.Wrap(strings.Join(told, ", "), p.columns-2) {
			p.line("%s", p.Paint(term.Dim, "  "+strings.ReplaceAll(line, "\u00a0", " ")))
		}
	}
}

// printResult prints a result: as one line of JSON with --json, and otherwise as print does.
func printResult(cmd *cobra.Command, result any, print func(*printer)) error {
	p := newPrinter(cmd)
	if p.json {
		p.value(result)
	} else {
		print(p)
	}
	return p.err
}

// printLine is printResult for a result that one sentence tells.
func printLine(cmd *cobra.Command, result any, format string, args ...any) error {
	return printResult(cmd, result, func(p *printer) { p.line(format, args...) })
}

// printAll prints a list: with --json a line for each, and otherwise as print does.
// An empty list is told as none.
func printAll[T any](cmd *cobra.Command, list []T, none string, print func(*printer, []T)) error {
	p := newPrinter(cmd)
	switch {
	case p.json:
		for i := range list {
			p.value(&list[i])
		}
	case len(list) == 0:
		p.line("%s", none)
	default:
		print(p, list)
	}
	return p.err
}

// printTable is printAll for a list that is shown in columns with the names in head, and with the
// titles of chats.
func printTable[T any](cmd *cobra.Command, list []T, none string, head []any, row func(T) []any) error {
	return printAll(cmd, list, none, func(p *printer, list []T) {
		rows, titles := [][]any{head}, titlesHere(cmd)
		for _, item := range list {
			cells := row(item)
			for i, cell := range cells {
				if words, ok := cell.(string); ok {
					cells[i] = titles.Within(words)
				}
			}
			rows = append(rows, cells)
		}
		p.rows(rows)
	})
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
