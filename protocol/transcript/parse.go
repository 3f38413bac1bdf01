package transcript

import (
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// A Case is one transcript.
type Case struct {
	Name  string // of the file, without its extension
	Title string
	steps []step
}

type step struct {
	verb   string // send, binary, expect, expectAny, expectAmong, connect, end, closed, silent
	conn   string
	code   int
	lines  []string
	times  int
	header string
}

// Load reads all transcripts of a file system, sorted by name.
func Load(files fs.FS) ([]Case, error) {
	names, err := fs.Glob(files, "*/*.txt")
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		c, err := Parse(strings.TrimSuffix(name[strings.LastIndexByte(name, '/')+1:], ".txt"), text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// Parse reads one transcript.
func Parse(name string, text []byte) (Case, error) {
	archive := txtar.Parse(text)
	title, _, _ := strings.Cut(string(archive.Comment), "\n")
	c := Case{Name: name, Title: title}
	times := 1
	for _, section := range archive.Files {
		if n, ok := strings.CutPrefix(section.Name, "repeat "); ok {
			var err error
			if times, err = strconv.Atoi(n); err != nil || times < 1 {
				return c, fmt.Errorf("repeat %q is not a number", n)
			}
			continue
		}
		s, err := parseStep(section)
		if err != nil {
			return c, err
		}
		s.times, times = times, 1
		c.steps = append(c.steps, s)
	}
	return c, nil
}

func parseStep(section txtar.File) (step, error) {
	s := step{header: section.Name}
	for line := range strings.Lines(string(section.Data)) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			s.lines = append(s.lines, expand(line))
		}
	}
	words := strings.Fields(section.Name)
	if len(words) < 2 {
		return s, fmt.Errorf("section %q does not name a connection and a verb", section.Name)
	}
	s.conn = words[0]
	verbs := map[string]string{
		">": "send", "> binary": "binary", "<": "expect", "<any": "expectAny", "<among": "expectAmong",
		"connects": "connect", "ends": "end", "silent": "silent",
	}
	rest := strings.Join(words[1:], " ")
	if code, ok := strings.CutPrefix(rest, "closed "); ok {
		n, err := strconv.Atoi(code)
		s.verb, s.code = "closed", n
		return s, err
	}
	s.verb = verbs[rest]
	if s.verb == "" {
		return s, fmt.Errorf("section %q has an unknown verb", section.Name)
	}
	return s, nil
}

var (
	repetition = regexp.MustCompile(`\{\{(.+?)\*(\d+)\}\}`)
	singleByte = regexp.MustCompile(`\{\{0x([0-9a-f]{2})\}\}`)
)

// expand expands "{{x*N}}" and "{{0xff}}".
func expand(line string) string {
	line = singleByte.ReplaceAllStringFunc(line, func(m string) string {
		b, err := strconv.ParseUint(m[len("{{0x"):len(m)-len("}}")], 16, 8)
		if err != nil { // cannot happen: the expression matches two hex digits
			return m
		}
		return string([]byte{byte(b)})
	})
	return repetition.ReplaceAllStringFunc(line, func(m string) string {
		parts := repetition.FindStringSubmatch(m)
		n, err := strconv.Atoi(parts[2])
		if err != nil {
			return m
		}
		return strings.Repeat(parts[1], n)
	})
}
