package laws

import (
	"go/ast"
	"strings"
	"testing"
)

// The largest sizes. The aim is two thirds of each.
const (
	maxFileLines     = 600
	maxFunctionLines = 100
	maxMethods       = 60 // of a type
	maxFields        = 15 // of a struct
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

// TestTypes_AreSmall limits the methods and fields of a type. Options,
// records whose every field has a tag, and what only tests use are excepted.
func TestTypes_AreSmall(t *testing.T) {
	methods := map[string]int{}
	for _, s := range sources(t) {
		if s.test() || strings.HasSuffix(s.pkg, "test") {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if name := receiverType(d); name != nil {
					methods[s.pkg+"."+name.Name]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						checkFields(t, s, spec)
					}
				}
			}
		}
	}
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods; at most %d", name, n, maxMethods)
		}
	}
}

func checkFields(t *testing.T, s source, spec *ast.TypeSpec) {
	st, ok := spec.Type.(*ast.StructType)
	if !ok || strings.HasSuffix(spec.Name.Name, "Options") {
		return
	}
	fields, tagged := 0, 0
	for _, f := range st.Fields.List {
		n := max(1, len(f.Names))
		fields += n
		if f.Tag != nil {
			tagged += n
		}
	}
	if fields > maxFields && tagged < fields {
		t.Errorf("%s: %s has %d fields; at most %d", s.path, spec.Name.Name, fields, maxFields)
	}
}
