package laws

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The largest sizes. The aim is two thirds of each.
const (
	maxFileLines     = 600
	maxFunctionLines = 100
	maxMethods       = 60  // of a type
	maxFields        = 15  // of a struct
	maxColumns       = 120 // of a line of production code
	maxTestLines     = 80  // of a function of a test
)

// TestFilesAndFunctions_AreShort limits files and functions.
func TestFilesAndFunctions_AreShort(t *testing.T) {
	for _, s := range sources(t) {
		if lines := strings.Count(s.text, "\n"); lines > maxFileLines {
			t.Errorf("%s has %d lines; at most %d: give a step of the flow its own file", s.path, lines, maxFileLines)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.test() {
				continue
			}
			from, to := s.fset.Position(f.Pos()).Line, s.fset.Position(f.End()).Line
			if lines := to - from + 1; lines > maxFunctionLines {
				t.Errorf("%s:%d: %s has %d lines; at most %d", s.path, from, f.Name.Name, lines, maxFunctionLines)
			}
		}
	}
}

// large lists the types with more fields than a struct may have, together with what they embed.
// A type leaves the list when it is split. None is added.
var large = []string{
	"activitylog/audit.publicationCounts", "activitylog/write.Stats", "activitylog/write.activeSegment", "activitylog/write.database",
	"activitylog/write.queue",
	"bus/console.request", "cmd/internal/program.Env", "peers/agent/harness.Event", "peers/agent/mailbox.Entry",
	"peers/agent/mailbox.Turn", "peers/agent/turns.iteration", "peers/broker.state", "peers/broker.view", "peers/system.supervisor",
	"protocol/wire.coalescingConn",
}

// TestTypes_AreSmall limits what belongs to a type: its methods together with
// the functions of its package that take it first, and its fields together with those of
// embedded structs that only it has. Options, records whose every field has a tag, and
// types for tests are excepted.
func TestTypes_AreSmall(t *testing.T) {
	methods, structs := map[string]int{}, map[string]*ast.StructType{}
	embedded := map[string][]string{} // types that a struct embeds
	embeds := map[string]int{}        // how many structs embed a type
	eachProductionDecl(t, func(s source, d ast.Decl) {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if name := owner(d); name != "" {
				methods[s.pkg+"."+name]++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					if st, ok := spec.Type.(*ast.StructType); ok && !strings.HasSuffix(spec.Name.Name, "Options") {
						name := s.pkg + "." + spec.Name.Name
						structs[name] = st
						for _, e := range embeddedTypes(s.pkg, st) {
							embedded[name] = append(embedded[name], e)
							embeds[e]++
						}
					}
				}
			}
		}
	})
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods and functions that take it first; at most %d", name, n, maxMethods)
		}
	}
	for name, st := range structs {
		fields, tagged := countFields(st)
		for _, e := range embedded[name] {
			if inner := structs[e]; inner != nil && embeds[e] == 1 {
				n, m := countFields(inner)
				fields, tagged = fields+n-1, tagged+m-1
			}
		}
		if fields > maxFields && tagged < fields && !slices.Contains(large, name) {
			t.Errorf("%s has %d fields; at most %d", name, fields, maxFields)
		}
	}
}

// eachProductionDecl calls f with each declaration outside of tests.
func eachProductionDecl(t *testing.T, f func(source, ast.Decl)) {
	for _, s := range sources(t) {
		if s.test() || strings.HasSuffix(s.pkg, "test") {
			continue
		}
		for _, d := range s.file.Decls {
			f(s, d)
		}
	}
}

// owner returns the type that a function belongs to: its receiver's, or that of its first
// parameter if that is a type of the same package.
func owner(f *ast.FuncDecl) string {
	if name := receiverType(f); name != nil {
		return name.Name
	}
	if len(f.Type.Params.List) == 0 {
		return ""
	}
	expr := f.Type.Params.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	if id, ok := expr.(*ast.Ident); ok && types.Universe.Lookup(id.Name) == nil {
		return id.Name
	}
	return ""
}

// embeddedTypes returns the types of the package that a struct embeds, as PACKAGE.TYPE.
func embeddedTypes(pkg string, st *ast.StructType) (list []string) {
	for _, f := range st.Fields.List {
		expr := f.Type
		if star, ok := expr.(*ast.StarExpr); ok {
			expr = star.X
		}
		if id, ok := expr.(*ast.Ident); ok && len(f.Names) == 0 {
			list = append(list, pkg+"."+id.Name)
		}
	}
	return list
}

// countFields returns how many fields a struct has, and how many of them have a tag.
func countFields(st *ast.StructType) (fields, tagged int) {
	for _, f := range st.Fields.List {
		n := max(1, len(f.Names))
		fields += n
		if f.Tag != nil || len(f.Names) == 0 {
			tagged += n
		}
	}
	return fields, tagged
}

// noBreak matches lines that may be longer: comments and strings that cannot be divided well.
var noBreak = regexp.MustCompile("^\\s*//|`|\"[^\"]{40,}|http")

// TestLines_FitTheScreen limits the width of production code. A tab counts four columns.
func TestLines_FitTheScreen(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		n, raw := 0, false
		for line := range strings.Lines(s.text) {
			n++
			line = strings.TrimRight(line, "\n")
			within := raw // a string between backquotes
			raw = raw != (strings.Count(line, "`")%2 == 1)
			if width := len([]rune(line)) + 3*strings.Count(line, "\t"); width > maxColumns && !within && !noBreak.MatchString(line) {
				t.Errorf("%s:%d: %d columns; at most %d", s.path, n, width, maxColumns)
			}
		}
	}
}

// TestTestFunctions_AreShort limits the functions of tests.
func TestTestFunctions_AreShort(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test() {
				from, to := s.fset.Position(f.Pos()).Line, s.fset.Position(f.End()).Line
				if lines := to - from + 1; lines > maxTestLines {
					t.Errorf("%s:%d: %s has %d lines; at most %d", s.path, from, f.Name.Name, lines, maxTestLines)
				}
			}
		}
	}
}
