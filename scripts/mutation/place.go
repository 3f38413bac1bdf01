package main

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A place is one change to one file.
type place struct {
	group string
	pkg   string // its folder, from the root
	file  string // from the root
	line  int
	what  string

	text     string // of the file
	from, to int    // the replaced bytes
	with     string
}

func (p place) String() string { return fmt.Sprintf("%s:%d: %s", p.file, p.line, p.what) }

// mutant returns the text of the changed file.
func (p place) mutant() string { return p.text[:p.from] + p.with + p.text[p.to:] }

// diff returns the affected lines, before and after the change.
func (p place) diff() string {
	start := strings.LastIndexByte(p.text[:p.from], '\n') + 1
	rest, _, _ := strings.Cut(p.text[p.to:], "\n")
	var b strings.Builder
	for line := range strings.Lines(p.text[start:p.to] + rest) {
		fmt.Fprintf(&b, "\t-%s\n", strings.TrimSuffix(line, "\n"))
	}
	for line := range strings.Lines(p.text[start:p.from] + p.with + rest) {
		fmt.Fprintf(&b, "\t+%s\n", strings.TrimSuffix(line, "\n"))
	}
	return b.String()
}

// findPlaces returns the places in those files of the groups that the arguments name.
func findPlaces(ctx context.Context, args []string) ([]place, error) {
	var places []place
	for _, group := range groups {
		packages, err := listPackages(ctx, "./"+group+"/...")
		if err != nil {
			return nil, err
		}
		for _, p := range packages {
			if strings.HasSuffix(p.folder, "test") { // used only by tests
				continue
			}
			for _, name := range p.GoFiles {
				found, err := placesOf(group, p.folder, filepath.ToSlash(filepath.Join(p.folder, name)))
				if err != nil {
					return nil, err
				}
				places = append(places, found...)
			}
		}
	}
	return slices.DeleteFunc(places, func(p place) bool { return !asked(args, p.file, p.line) }), nil
}

func placesOf(group, pkg, file string) ([]place, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f := &finder{fset: token.NewFileSet(), place: place{group: group, pkg: pkg, file: file, text: string(text)}}
	parsed, err := parser.ParseFile(f.fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f.walk(parsed)
	slices.SortFunc(f.found, func(a, b place) int {
		return cmp.Or(a.from-b.from, a.to-b.to, strings.Compare(a.with, b.with))
	})
	return slices.CompactFunc(
		f.found, func(a, b place) bool { return a.from == b.from && a.to == b.to && a.with == b.with },
	), nil
}

// A finder collects the places of one file.
type finder struct {
	fset  *token.FileSet
	place place // the members that its places have in common
	found []place
}

func (f *finder) offset(pos token.Pos) int { return f.fset.Position(pos).Offset }

func (f *finder) source(n ast.Node) string { return f.place.text[f.offset(n.Pos()):f.offset(n.End())] }

// replace adds a place that replaces the source between two positions.
func (f *finder) replace(what string, from, to token.Pos, with string) {
	p := f.place
	p.what, p.line = what, f.fset.Position(from).Line
	p.from, p.to, p.with = f.offset(from), f.offset(to), with
	f.found = append(f.found, p)
}

// walk adds the places of a node and of its children.
func (f *finder) walk(n ast.Node) {
	var stack []ast.Node // the parents of the node, outermost first
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if beside(n, stack) {
			return false
		}
		f.at(n, stack)
		stack = append(stack, n)
		return true
	})
}

// at adds the places of one node.
func (f *finder) at(n ast.Node, stack []ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.ForStmt:
		f.negate(n.Cond)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, c := range n.Body.List {
				for _, condition := range c.(*ast.CaseClause).List {
					f.negate(condition)
				}
			}
		}
		return
	case *ast.BinaryExpr:
		f.binary(n, stack)
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	case *ast.BasicLit:
		f.constant(n)
	case *ast.Ident:
		f.boolean(n, stack)
	case *ast.ReturnStmt:
		f.hideError(n, stack)
	}
}

var (
	opposite = map[token.Token]token.Token{
		token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ,
		token.LEQ: token.GTR,
	}
	neighbour = map[token.Token]token.Token{
		token.LSS: token.LEQ,
		token.LEQ: token.LSS,
		token.GTR: token.GEQ,
		token.GEQ: token.GTR,
	}
)

// binary adds the places of a comparison and of the operands of && and ||.
func (f *finder) binary(n *ast.BinaryExpr, stack []ast.Node) {
	operator := n.OpPos + token.Pos(len(n.Op.String()))
	switch n.Op {
	case token.LAND, token.LOR:
		f.negate(n.X)
		f.negate(n.Y)
	default:
		if other, ok := opposite[n.Op]; ok {
			f.replace("condition negated", n.OpPos, operator, other.String())
		}
		if other, ok := neighbour[n.Op]; ok && !measured(n) && !clamps(f, n, stack) {
			f.replace("boundary changed", n.OpPos, operator, other.String())
		}
	}
}

// negate adds a place that negates a condition. It skips comparisons and conjunctions, which
// binary handles.
func (f *finder) negate(condition ast.Expr) {
	switch n := condition.(type) {
	case nil, *ast.BinaryExpr:
	case *ast.ParenExpr:
		f.negate(n.X)
	case *ast.UnaryExpr:
		f.replace("condition negated", n.Pos(), n.End(), f.source(n.X))
	default:
		f.replace("condition negated", n.Pos(), n.End(), "!"+f.source(n))
	}
}

// statements adds the places that remove a call or swap neighbouring statements.
func (f *finder) statements(list []ast.Stmt) {
	for i, s := range list {
		if acts, ok := s.(*ast.ExprStmt); ok && !idle(acts) {
			f.replace("call removed", s.Pos(), s.End(), "")
		}
		if i > 0 && f.ordered(list[i-1], s) {
			before := list[i-1]
			between := f.place.text[f.offset(before.End()):f.offset(s.Pos())]
			f.replace("neighbours swapped", before.Pos(), s.End(), f.source(s)+between+f.source(before))
		}
	}
}

// constant adds a place that changes a number. A number that looks like an arbitrary choice is
// doubled, because its neighbours would do as well.
func (f *finder) constant(n *ast.BasicLit) {
	value, err := strconv.ParseInt(n.Value, 0, 64)
	switch {
	case n.Kind != token.INT || err != nil:
	case value < 4:
		f.replace("constant changed", n.Pos(), n.End(), strconv.FormatInt(value+1, 10))
	default:
		f.replace("constant changed", n.Pos(), n.End(), "2*"+n.Value)
	}
}

func (f *finder) boolean(n *ast.Ident, stack []ast.Node) {
	if len(stack) == 0 {
		return
	}
	if selector, ok := stack[len(stack)-1].(*ast.SelectorExpr); ok && selector.Sel == n {
		return
	}
	switch n.Name {
	case "true":
		f.replace("boolean flipped", n.Pos(), n.End(), "false")
	case "false":
		f.replace("boolean flipped", n.Pos(), n.End(), "true")
	}
}

// hideError adds a place that makes a function return no error.
func (f *finder) hideError(n *ast.ReturnStmt, stack []ast.Node) {
	results := signature(stack)
	if results == nil || len(n.Results) == 0 {
		return
	}
	kind, ok := results.List[len(results.List)-1].Type.(*ast.Ident)
	last := n.Results[len(n.Results)-1]
	if ok && kind.Name == "error" && f.source(last) != "nil" {
		f.replace("error hidden", last.Pos(), last.End(), "nil")
	}
}

// signature returns the results of the innermost function, or nil.
func signature(stack []ast.Node) *ast.FieldList {
	for _, n := range slices.Backward(stack) {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return n.Type.Results
		case *ast.FuncLit:
			return n.Type.Results
		}
	}
	return nil
}
