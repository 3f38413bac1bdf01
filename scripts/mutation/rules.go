package main

import (
	"go/ast"
	"go/token"
	"slices"
)

// The rules exclude changes that no test could detect or that break no promise. Each rule covers
// a kind of code; there is no list of exceptions.

// unseen are the last words of calls without an effect on the program.
var unseen = map[string]string{
	// only if the call begins with a log, see logs
	"Msg": "writes a log line", "Msgf": "writes a log line", "Send": "writes a log line",
	"Crash":  "is the place where tests let a program die; it does nothing elsewhere",
	"Grow":   "reserves memory",
	"Helper": "names a test's line",
}

// beside reports whether nothing below a node is to be changed.
func beside(n ast.Node, stack []ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.CommentGroup:
		return true
	case *ast.ExprStmt:
		return idle(n)
	case *ast.KeyValueExpr: // descriptions of metrics for Prometheus
		key, ok := n.Key.(*ast.Ident)
		return ok && (key.Name == "Buckets" || key.Name == "Help")
	case ast.Expr:
		return capacity(n, stack) || besideFailure(n, stack)
	}
	return false
}

// idle reports whether a statement has no effect on the program.
func idle(s *ast.ExprStmt) bool {
	c, ok := s.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	name, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || unseen[name.Sel.Name] == "" {
		return false
	}
	return unseen[name.Sel.Name] != unseen["Msg"] || logs(name.X)
}

// logs reports whether a chain of calls begins with the level of a log line.
func logs(e ast.Expr) bool {
	for {
		c, ok := e.(*ast.CallExpr)
		if !ok {
			return false
		}
		name, ok := c.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		if slices.Contains([]string{"Trace", "Debug", "Info", "Warn", "Error", "Log", "WithLevel"}, name.Sel.Name) {
			return true
		}
		e = name.X
	}
}

// capacity reports whether an expression only determines how much memory is reserved: the
// capacity of a slice, the size of a map, or that of a reader's or writer's buffer.
func capacity(e ast.Expr, stack []ast.Node) bool {
	if len(stack) == 0 {
		return false
	}
	c, ok := stack[len(stack)-1].(*ast.CallExpr)
	if !ok || len(c.Args) < 2 || c.Args[len(c.Args)-1] != e {
		return false
	}
	switch name := c.Fun.(type) {
	case *ast.Ident:
		_, mapped := c.Args[0].(*ast.MapType)
		return name.Name == "make" && (len(c.Args) == 3 || mapped)
	case *ast.SelectorExpr:
		return name.Sel.Name == "NewReaderSize" || name.Sel.Name == "NewWriterSize"
	}
	return false
}

// clamps reports whether a comparison guards an assignment of one side to the other. At the
// boundary both are equal.
func clamps(f *finder, n *ast.BinaryExpr, stack []ast.Node) bool {
	if len(stack) == 0 {
		return false
	}
	guard, ok := stack[len(stack)-1].(*ast.IfStmt)
	if !ok || guard.Cond != ast.Expr(n) || guard.Else != nil || len(guard.Body.List) != 1 {
		return false
	}
	var to, from ast.Expr
	switch s := guard.Body.List[0].(type) {
	case *ast.AssignStmt:
		if len(s.Lhs) != 1 {
			return false
		}
		to, from = s.Lhs[0], s.Rhs[0]
	case *ast.ReturnStmt: // if a < b { return b }: usually followed by return a
		return false
	default:
		return false
	}
	x, y := f.source(n.X), f.source(n.Y)
	return f.source(to) == x && f.source(from) == y || f.source(to) == y && f.source(from) == x
}

// measured reports whether a comparison is of a measured time, whose last nanosecond does not
// matter.
func measured(n *ast.BinaryExpr) bool {
	return slices.ContainsFunc([]ast.Expr{n.X, n.Y}, func(e ast.Expr) bool {
		c, ok := e.(*ast.CallExpr)
		if !ok {
			return false
		}
		name, ok := c.Fun.(*ast.SelectorExpr)
		return ok && slices.Contains([]string{"Since", "Until", "Sub"}, name.Sel.Name)
	})
}

// besideFailure reports whether an expression is returned beside false or an error, so that
// callers ignore it.
func besideFailure(e ast.Expr, stack []ast.Node) bool {
	if len(stack) == 0 {
		return false
	}
	r, ok := stack[len(stack)-1].(*ast.ReturnStmt)
	if !ok || len(r.Results) < 2 || r.Results[len(r.Results)-1] == e {
		return false
	}
	switch last := r.Results[len(r.Results)-1].(type) {
	case *ast.Ident:
		return last.Name == "false" || last.Name == "err"
	case *ast.CallExpr: // fmt.Errorf and the like
		name, ok := last.Fun.(*ast.SelectorExpr)
		return ok && (name.Sel.Name == "Errorf" || name.Sel.Name == "New")
	}
	return false
}

// ordered reports whether the order of two neighbouring statements may be a promise, such as a
// store before an acknowledgement. Steps of a transaction take effect with the commit, in any
// order. Calls that fill in different variables, fill(&a) and fill(&b), are independent.
func (f *finder) ordered(a, b ast.Stmt) bool {
	first, second := action(a), action(b)
	if first == nil || second == nil {
		return false
	}
	return !f.step(first) && !f.step(second) && !(fills(first) && fills(second))
}

// fills reports whether a call gets the address of the variable that it sets.
func fills(c *ast.CallExpr) bool {
	if len(c.Args) == 0 {
		return false
	}
	address, ok := c.Args[0].(*ast.UnaryExpr)
	return ok && address.Op == token.AND
}

// action returns the call that is a statement, or the call at the beginning of a statement that
// checks its error, or nil.
func action(s ast.Stmt) *ast.CallExpr {
	switch s := s.(type) {
	case *ast.ExprStmt:
		if c, ok := s.X.(*ast.CallExpr); ok && !idle(s) {
			return c
		}
	case *ast.IfStmt:
		if set, ok := s.Init.(*ast.AssignStmt); ok && s.Else == nil && len(set.Rhs) == 1 {
			c, _ := set.Rhs[0].(*ast.CallExpr)
			return c
		}
	}
	return nil
}

// step reports whether a call is a step of a transaction: a method of one, or a call with one as
// an argument.
func (f *finder) step(c *ast.CallExpr) bool {
	isTx := func(e ast.Expr) bool {
		for {
			switch n := e.(type) {
			case *ast.SelectorExpr:
				if n.Sel.Name == "tx" || n.Sel.Name == "Tx" {
					return true
				}
				e = n.X
			case *ast.Ident:
				return n.Name == "tx"
			default:
				return false
			}
		}
	}
	return isTx(c.Fun) || slices.ContainsFunc(c.Args, isTx)
}
