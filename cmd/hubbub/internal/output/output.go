package output

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

	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/internal/term"

	"github.com/spf13/cobra"
)

// A Printer prints the results of a command as text or JSON. It keeps its first error.
type Printer struct {
	term.Painter
	Columns int  // of the terminal; 0 if the output is not a terminal
	JSON    bool // print JSON
	Out     io.Writer
	Err     error
}

// NewPrinter returns a printer for the output of a command.
func NewPrinter(cmd *cobra.Command) *Printer {
	w := cmd.OutOrStdout()
	return &Printer{Painter: term.NewPainter(w), Columns: term.Columns(w), JSON: WantsJSON(cmd), Out: w}
}

// Linef prints a line of text, folded to the width of the terminal.
func (p *Printer) Linef(format string, args ...any) {
	words := fmt.Sprintf(format, args...)
	if p.Columns > 0 && !p.JSON {
		lines := strings.Split(words, "\n")
		for i, line := range lines {
			if line = strings.TrimRight(line, " "); term.Fit(line, p.Columns) != line {
				rest := strings.TrimLeft(line, " ")
				line = term.Hang(line[:len(line)-len(rest)], rest, p.Columns)
			}
			lines[i] = line
		}
		words = strings.Join(lines, "\n")
	}
	if p.Err == nil {
		_, p.Err = fmt.Fprintln(p.Out, words)
	}
}

// Value prints a value as one line of JSON.
func (p *Printer) Value(v any) {
	if p.Err == nil {
		p.Err = NewEncoder(p.Out).Encode(v)
	}
}

// Rows prints rows in columns. The first row has the names of the columns. If the terminal is too
// narrow, it folds each row.
func (p *Printer) Rows(rows [][]any) {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintf(t, strings.Repeat("%v\t", len(cells)-1)+"%v\n", cells...)
	}
	p.Err = cmp.Or(p.Err, t.Flush())
	for line := range strings.Lines(b.String()) {
		if p.Columns > 0 && term.Width(strings.TrimRight(line, " \n")) > p.Columns {
			p.foldedRows(rows)
			return
		}
	}
	p.Linef("%s", strings.TrimSuffix(b.String(), "\n"))
}

// foldedRows prints the first cell of each row, and below it the other cells that are not empty,
// each after the name of its column.
func (p *Printer) foldedRows(rows [][]any) {
	for _, cells := range rows[1:] {
		p.Linef("%s", strings.Join(term.Wrap(fmt.Sprint(cells[0]), p.Columns), "\n"))
		var told []string
		for i, cell := range cells[1:] {
			if words := strings.TrimSpace(fmt.Sprint(cell)); words != "" && words != "-" {
				told = append(told, strings.ToLower(fmt.Sprint(rows[0][i+1]))+"\u00a0"+words) // kept on one line
			}
		}
		for _, line := range term.Wrap(strings.Join(told, ", "), p.Columns-2) {
			p.Linef("%s", p.Paint(term.Dim, "  "+strings.ReplaceAll(line, "\u00a0", " ")))
		}
	}
}

// Result prints a result: with --json as one line of JSON, otherwise with print.
func Result(cmd *cobra.Command, result any, print func(*Printer)) error {
	p := NewPrinter(cmd)
	if p.JSON {
		p.Value(result)
	} else {
		print(p)
	}
	return p.Err
}

// Line prints a result: with --json as one line of JSON, otherwise as a formatted sentence.
func Line(cmd *cobra.Command, result any, format string, args ...any) error {
	return Result(cmd, result, func(p *Printer) { p.Linef(format, args...) })
}

// List prints a list: with --json as one line for each item, otherwise with print. For an empty
// list it prints the text none.
func List[T any](cmd *cobra.Command, list []T, none string, print func(*Printer, []T)) error {
	p := NewPrinter(cmd)
	switch {
	case p.JSON:
		for i := range list {
			p.Value(&list[i])
		}
	case len(list) == 0:
		p.Linef("%s", none)
	default:
		print(p, list)
	}
	return p.Err
}

// Table prints a list as a table with the column names in head. In the table, known chats have
// their titles.
func Table[T any](cmd *cobra.Command, list []T, none string, head []any, row func(T) []any) error {
	return List(cmd, list, none, func(p *Printer, list []T) {
		rows, titles := [][]any{head}, logs.TitlesFor(cmd)
		for _, item := range list {
			cells := row(item)
			for i, cell := range cells {
				if words, ok := cell.(string); ok {
					cells[i] = titles.Within(words)
				}
			}
			rows = append(rows, cells)
		}
		p.Rows(rows)
	})
}

// NewEncoder returns an encoder that writes one value per line.
func NewEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(rawWriter{w})
	enc.SetEscapeHTML(false)
	return enc
}

// A rawWriter writes whole JSON values. It escapes characters that JSON allows in strings but
// that would control a terminal or change the direction of writing. The values do not change.
type rawWriter struct{ w io.Writer }

func (j rawWriter) Write(values []byte) (int, error) {
	n := len(values)
	if bytes.ContainsFunc(values, ControlsTerminal) {
		values = escapeControls(values)
	}
	if _, err := j.w.Write(values); err != nil {
		return 0, err
	}
	return n, nil
}

// ControlsTerminal reports whether JSON leaves a character unescaped that a terminal may
// interpret.
func ControlsTerminal(r rune) bool {
	return r >= 0x7f && (r <= 0x9f || unicode.Is(unicode.Bidi_Control, r))
}
func escapeControls(values []byte) []byte {
	safe := make([]byte, 0, len(values)+64)
	for len(values) > 0 {
		r, size := utf8.DecodeRune(values)
		if ControlsTerminal(r) { // only a string can contain it
			safe = fmt.Appendf(safe, `\u%04x`, r)
		} else {
			safe = append(safe, values[:size]...)
		}
		values = values[size:]
	}
	return safe
}

// WantsJSON reports whether a command prints JSON.
func WantsJSON(cmd *cobra.Command) bool {
	on, err := cmd.Flags().GetBool("json")
	return err == nil && on
}

// WriteRaw writes JSON unchanged, except that it escapes characters that would control a
// terminal.
func WriteRaw(w io.Writer, raw []byte) (int, error) { return rawWriter{w}.Write(raw) }
