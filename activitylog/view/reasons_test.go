package view_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hubbub/activitylog/view"
)

// A reasonFinder collects the reasons that a peer's source can record: what is
// assigned to a field or key named reason, the names of the rules of attention,
// and the first column of its tables of refusals.
type reasonFinder struct {
	consts map[string]string // of the package, by name
	found  map[string]string // where each reason occurs
	where  string
}

var reasonName = regexp.MustCompile(`^\+?[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

func (f *reasonFinder) take(e ast.Expr) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); e.Kind == token.STRING && err == nil && reasonName.MatchString(text) {
			f.found[text] = f.where
		}
	case *ast.Ident:
		if text := f.consts[e.Name]; reasonName.MatchString(text) {
			f.found[text] = f.where
		}
	case *ast.CallExpr: // cmp.Or(x, "reason"), string(x)
		for _, a := range e.Args {
			f.take(a)
		}
	}
}

func isReason(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.EqualFold(e.Name, "reason")
	case *ast.SelectorExpr:
		return e.Sel.Name == "Reason" || e.Sel.Name == "reason"
	case *ast.BasicLit:
		return e.Value == `"reason"`
	}
	return false
}

// Visit implements ast.Visitor.
func (f *reasonFinder) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if isReason(n.Key) {
			f.take(n.Value)
		}
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			if isReason(to) && i < len(n.Rhs) {
				f.take(n.Rhs[i])
			}
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) && strings.HasPrefix(strings.ToLower(name.Name), "reason") {
				f.take(n.Values[i])
			}
		}
	case *ast.CompositeLit: // a row of a table: {"reason", condition, ...}
		if n.Type == nil && len(n.Elts) >= 2 && (strings.HasSuffix(f.where, "attention/permit.go") || strings.HasSuffix(f.where, "attention/rules.go")) {
			f.take(n.Elts[0])
		}
	}
	return f
}

// findReasons reads the peers' source, so that a developer who adds a reason need not know this
// test.
func findReasons(t *testing.T) map[string]string {
	t.Helper()
	fset := token.NewFileSet()
	files := map[string][]*ast.File{}
	err := filepath.WalkDir("../../peers", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err == nil {
			files[filepath.Dir(name)] = append(files[filepath.Dir(name)], file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for folder, list := range files {
		if !slices.ContainsFunc([]string{"attention", "agent", "chorus"}, func(p string) bool { return strings.HasPrefix(folder+"/", "../../peers/"+p+"/") }) {
			continue // nothing else records what it did with an event
		}
		consts := map[string]string{}
		for _, file := range list {
			for _, d := range file.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
					collectConsts(g, consts)
				}
			}
		}
		for _, file := range list {
			ast.Walk(&reasonFinder{consts, found, filepath.ToSlash(fset.Position(file.Pos()).Filename)}, file)
		}
	}
	return found
}

func collectConsts(g *ast.GenDecl, consts map[string]string) {
	for _, spec := range g.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, name := range v.Names {
			if i < len(v.Values) {
				if lit, ok := v.Values[i].(*ast.BasicLit); ok {
					consts[name.Name], _ = strconv.Unquote(lit.Value) // of a number: nothing
				}
			}
		}
	}
}

// TestReasons_AllHaveTexts checks that every reason has a text, because operators
// do not know the names of the rules.
func TestReasons_AllHaveTexts(t *testing.T) {
	found := findReasons(t)
	for _, known := range []string{"mention", "must_not_respond", "claim_granted", "exchange_held", "+stale"} {
		if found[known] == "" {
			t.Errorf("%q is not found any more: has the source another form?", known)
		}
	}
	for reason, where := range found {
		if added, ok := strings.CutPrefix(reason, "+"); ok {
			reason = "mention+" + added
		}
		if view.DescribeReason(reason) == "" {
			t.Errorf("%s: %q has no words in reasons.go", where, reason)
		}
	}
	for reason, want := range map[string]string{
		"mention+returned+stale": "the agent is mentioned, which wakes the agent again, too old to need an answer",
		"mention+unheard_of":     "",
		"replied":                "",
		"":                       "",
	} {
		if got := view.DescribeReason(reason); got != want {
			t.Errorf("%q is %q; want %q", reason, got, want)
		}
	}
}

// The time for a long reason is linear.
func TestDescribeReason_MakesOneText(t *testing.T) {
	reason := "direct_message" + strings.Repeat("+stale", 5000)
	if n := testing.AllocsPerRun(1, func() { view.DescribeReason(reason) }); n > 6000 {
		t.Errorf("it allocates %v times", n)
	}
}
