// Package laws holds the laws of the repository: which package may import
// which, how large files, functions and types may grow, and what must be
// documented. Each law is a test, so a change that breaks a law must also
// change that test.
package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
)

const module = "hubbub/"

// TestMain runs the tests in the root of the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// mayImport is the import law: the packages of this module that each package
// may import outside its tests. A new package needs a new line. No peer may
// import bus or another peer, and nothing may import cmd.
var mayImport = map[string][]string{
	"scripts":           {},
	"scripts/laws":      {},
	"protocol/jsonrpc":  {},
	"protocol":          {"protocol/jsonrpc"},
	"protocol/wire":     {"protocol", "protocol/jsonrpc"},
	"protocol/http1":    {},
	"protocol/notify":   {},
	"protocol/timetest": {},

	"protocol/chorus":     {},
	"protocol/datafolder": {},
	"protocol/defaults":   {},
	"protocol/redact":     {},
	"protocol/retry":      {},
	"protocol/text":       {},

	"protocol/transcript": {"protocol", "protocol/jsonrpc", "protocol/wire"},

	"activitylog":                    {"protocol"},
	"activitylog/audit":              {"activitylog", "activitylog/internal/merkle", "activitylog/internal/segment", "activitylog/read", "protocol"},
	"activitylog/internal/logtest":   {"activitylog", "activitylog/internal/segment", "protocol"},
	"activitylog/internal/merkle":    {"protocol/datafolder"},
	"activitylog/internal/writetest": {"activitylog", "activitylog/internal/logtest", "activitylog/write"},
	"activitylog/internal/segment":   {"activitylog", "activitylog/internal/merkle", "protocol/datafolder"},
	"activitylog/read":               {"activitylog", "activitylog/internal/segment", "protocol"},
	"activitylog/write":              {"activitylog", "activitylog/internal/merkle", "activitylog/internal/segment", "protocol", "protocol/datafolder"},
	"activitylog/agentstats":         {"activitylog", "protocol", "activitylog/read"},
	"activitylog/chain":              {"activitylog", "protocol", "activitylog/read"},
	"activitylog/otlp":               {"activitylog", "activitylog/chain", "protocol"},
	"activitylog/view":               {"activitylog", "activitylog/chain", "protocol", "protocol/text", "activitylog/read", "activitylog/write"},

	"bus":         {"protocol", "protocol/jsonrpc", "protocol/wire", "activitylog", "bus/grant", "bus/report", "activitylog/write"},
	"bus/grant":   {"protocol", "protocol/datafolder"},
	"bus/report":  {"activitylog/write"},
	"bus/console": {"protocol", "protocol/collab", "protocol/retry", "protocol/text", "activitylog", "activitylog/agentstats", "activitylog/chain", "activitylog/view", "bus/report", "activitylog/read"},
	"peers/lease": {},
	"bus/cluster": {"protocol", "activitylog", "bus"},
	"bus/bustest": {"protocol", "protocol/jsonrpc", "protocol/wire", "bus", "bus/grant", "peers/peer", "activitylog/write"},

	"protocol/collab": {"protocol"},

	"peers/peer":      {"protocol", "protocol/jsonrpc", "protocol/wire"},
	"peers/store":     {"protocol/datafolder"},
	"peers/outbox":    {"peers/store"},
	"peers/attention": {},
	"peers/proc":      {},
	"peers/netguard":  {},

	"peers/bridge":                    {"protocol/http1", "peers/attention", "protocol", "protocol/collab", "peers/peer", "peers/store", "peers/outbox", "peers/collab"},
	"peers/tg":                        {"protocol/http1", "protocol", "peers/peer", "peers/outbox", "peers/store", "peers/bridge", "peers/attention", "peers/tg/botapi", "peers/markdown"},
	"peers/tg/botapi":                 {"protocol/http1"},
	"peers/mx":                        {"protocol", "protocol/datafolder", "peers/peer", "peers/outbox", "peers/store", "peers/bridge", "peers/attention", "peers/markdown"},
	"peers/markdown":                  {},
	"peers/store/storetest":           {"peers/store"},
	"peers/tg/tgtest":                 {},
	"peers/bridge/bridgetest":         {"protocol", "peers/peer", "peers/store", "bus/bustest"},
	"peers/system":                    {"protocol", "protocol/datafolder", "peers/peer", "peers/outbox", "peers/store"},
	"peers/system/*":                  {"protocol/datafolder", "peers/system", "peers/proc"},
	"peers/system/systemtest":         {"protocol", "peers/peer"},
	"peers/agent":                     {"protocol", "protocol/collab", "peers/peer", "peers/outbox", "peers/store", "peers/attention", "peers/collab", "peers/agent/files", "peers/agent/harness", "peers/agent/mailbox", "peers/agent/mailbox/budget", "peers/agent/mailbox/decisions", "peers/agent/mailbox/intake", "peers/agent/mailbox/lifecycle", "peers/agent/mailbox/obligations", "peers/agent/tools", "peers/agent/turns"},
	"peers/agent/mailbox":             {"protocol", "peers/attention", "peers/outbox", "peers/store", "protocol/collab"},
	"peers/agent/mailbox/*":           {"protocol", "protocol/collab", "peers/attention", "peers/store", "peers/agent/mailbox"},
	"peers/agent/mailbox/lifecycle":   {"protocol", "protocol/collab", "peers/attention", "peers/store", "peers/agent/mailbox", "peers/agent/mailbox/obligations"},
	"peers/agent/mailbox/intake":      {"protocol", "protocol/collab", "peers/attention", "peers/store", "peers/agent/mailbox", "peers/agent/mailbox/lifecycle", "peers/agent/mailbox/obligations"},
	"peers/agent/files":               {"protocol", "peers/agent/harness", "peers/agent/mailbox", "peers/proc"},
	"peers/agent/tools":               {"protocol", "protocol/collab", "peers/attention", "peers/collab", "peers/outbox", "peers/agent/files", "peers/agent/harness", "peers/agent/mailbox", "peers/agent/mailbox/budget", "peers/agent/mailbox/decisions", "peers/agent/mailbox/lifecycle", "peers/agent/mailbox/obligations", "peers/agent/mailbox/reminders"},
	"peers/agent/turns":               {"protocol", "peers/attention", "peers/agent/files", "peers/agent/harness", "peers/agent/mailbox", "peers/agent/mailbox/budget", "peers/agent/mailbox/decisions", "peers/agent/mailbox/lifecycle", "peers/agent/mailbox/obligations", "peers/agent/mailbox/reminders", "peers/agent/tools"},
	"peers/agent/harness":             {"peers/attention", "protocol"},
	"peers/agent/harness/*":           {"peers/attention", "peers/store", "protocol", "protocol/chorus", "protocol/http1", "peers/agent/harness", "peers/agent/harness/subprocess", "peers/proc", "peers/netguard", "protocol/jsonrpc", "protocol/datafolder"},
	"peers/agent/harness/harnesstest": {"peers/agent/harness", "peers/agent/harness/scripted", "protocol/jsonrpc"},
	"peers/agent/harness/conformance": {"peers/attention", "peers/agent/harness", "peers/agent/harness/c2a", "peers/agent/harness/subprocess"},
	"peers/agent/external": {
		"protocol", "protocol/chorus", "protocol/datafolder", "peers/peer", "peers/store", "peers/agent", "peers/agent/harness", "peers/agent/harness/chorus", "peers/agent/harness/mcptools",
	},
	"peers/chorus":       {"protocol/http1", "peers/netguard", "protocol", "protocol/chorus", "protocol/jsonrpc", "protocol/datafolder", "peers/peer", "peers/outbox", "peers/store", "peers/bridge", "peers/attention", "protocol/collab", "peers/collab"},
	"peers/collab":       {"protocol", "protocol/collab", "peers/peer"},
	"peers/broker":       {"protocol", "peers/peer", "peers/outbox", "peers/store", "peers/attention", "protocol/collab", "peers/broker/rules"},
	"peers/broker/rules": {"protocol", "protocol/collab", "peers/attention"},

	"docs":                           {},
	"cmd":                            {"*"}, // tests of the programs
	"cmd/*":                          {"*"},
	"cmd/hubbub/internal/output":     {"cmd/hubbub/internal/logs", "cmd/internal/term"},
	"cmd/hubbub/internal/logs":       {"activitylog", "activitylog/view", "cmd/internal/program", "cmd/internal/term", "activitylog/read"},
	"cmd/hubbub/internal/busclient":  {"bus/report", "cmd/internal/program", "peers/peer", "protocol", "protocol/jsonrpc", "protocol/wire"},
	"cmd/hubbub/internal/completion": {"activitylog", "activitylog/view", "cmd/hubbub/internal/busclient", "cmd/hubbub/internal/logs", "cmd/internal/program", "cmd/internal/term", "protocol", "protocol/text", "activitylog/read"},
	"cmd/hubbub/internal/provision":  {"bus/grant", "cmd/internal/program", "protocol/datafolder"},
	"cmd/hubbub/internal/*":          {"*"}, // groups of commands
	"cmd/internal/program":           {"protocol", "protocol/datafolder", "peers/peer", "peers/lease", "peers/proc", "cmd/internal/proxyenv", "cmd/internal/term"},
	"cmd/internal/proxyenv":          {}, // initialized before everything that reads the variables of proxies
	"cmd/internal/fleet":             {"peers/proc", "cmd/internal/term"},
	"cmd/internal/reference":         {"cmd/internal/program", "cmd/internal/term"},
	"cmd/internal/term":              {},
	"cmd/internal/directchat":        {"protocol"},
	"cmd/internal/deadletter":        {"peers/bridge", "peers/outbox", "peers/store", "peers/tg"},
	"cmd/internal/load":              {"protocol", "protocol/jsonrpc", "protocol/wire"},
	"cmd/internal/documentstest":     {},
}

// general packages know nothing about Hubbub. Every package may import them,
// except those in isolated.
var general = []string{"protocol/defaults", "protocol/notify", "protocol/redact", "protocol/retry", "protocol/text"}

// isolated packages import no other package of this module.
var isolated = []string{"protocol/defaults", "protocol/jsonrpc", "protocol/http1", "protocol/datafolder", "protocol/notify", "protocol/redact", "protocol/retry", "protocol/text", "peers/attention"}

// homes maps the first word of a function's name to the only package that may
// define such a function.
var homes = map[string]string{"clip": "protocol/text", "sleep": "protocol/retry", "backoff": "protocol/retry", "positive": "protocol/defaults"}

// bannedWords say nothing about what they name.
var bannedWords = []string{"core", "engine", "util", "utils", "helper", "helpers", "manager", "common", "misc", "base"}

// A source is one Go file of the repository.
type source struct {
	path string // slash-separated, from the root
	pkg  string // its folder
	file *ast.File
	fset *token.FileSet
	text string
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// sources returns every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsed reads and parses the files, once for all laws.
var parsed = sync.OnceValues(func() ([]source, error) {
	var all []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") || name == "bin" || name == "dist" {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && name != "." {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		slash := filepath.ToSlash(name)
		all = append(all, source{path: slash, pkg: path.Dir(slash), file: file, fset: fset, text: string(text)})
		return nil
	})
	return all, err
})

// imports returns the packages of ours that a file imports.
func (s source) imports(t *testing.T) []string {
	var ours []string
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if dep, ok := strings.CutPrefix(p, module); ok {
			ours = append(ours, dep)
		}
	}
	return ours
}

// allowed returns the line of the law for a package.
func allowed(pkg string) ([]string, bool) {
	if line, ok := mayImport[pkg]; ok {
		return line, true
	}
	line, ok := mayImport[path.Dir(pkg)+"/*"]
	return line, ok
}

// TestImports_PointDown checks every file against mayImport.
func TestImports_PointDown(t *testing.T) {
	for _, s := range sources(t) {
		line, ok := allowed(s.pkg)
		if !ok {
			t.Errorf("%s: package %s has no line in the import law", s.path, s.pkg)
			continue
		}
		for _, dep := range s.imports(t) {
			switch {
			case strings.HasPrefix(dep, "cmd/") && s.pkg != "cmd" && !strings.HasPrefix(s.pkg, "cmd/"):
				t.Errorf("%s: nothing may import %s", s.path, dep)
			case s.test():
				if isPeer(s.pkg) && dep == "bus" {
					t.Errorf("%s: tests of a peer use bus/bustest, not bus", s.path)
				}
			case slices.Contains(line, dep), slices.Contains(line, "*"), slices.Contains(general, dep) && !slices.Contains(isolated, s.pkg):
			default:
				t.Errorf("%s: %s may not import %s", s.path, s.pkg, dep)
			}
		}
	}
}

func isPeer(pkg string) bool { return strings.HasPrefix(pkg, "peers/") }

// TestImportLaw_IsSound checks that no line of the table allows what the law
// forbids.
func TestImportLaw_IsSound(t *testing.T) {
	shared := []string{"peers/bridge", "peers/markdown", "peers/peer", "peers/store", "peers/outbox", "peers/attention", "peers/collab", "peers/proc", "peers/netguard"}
	for pkg, line := range mayImport {
		for _, dep := range line {
			own := strings.HasPrefix(dep+"/", "peers/"+strings.Split(pkg+"//", "/")[1]+"/")
			if isPeer(pkg) && (dep == "bus" || isPeer(dep) && !own && !slices.Contains(shared, dep)) {
				t.Errorf("the line of %s holds %s", pkg, dep)
			}
			if strings.HasPrefix(dep, "cmd/") && !strings.HasPrefix(pkg, "cmd/") {
				t.Errorf("the line of %s holds %s", pkg, dep)
			}
		}
	}
}

// TestDecisions_ArePure keeps clocks, networks and files out of the packages
// whose functions depend only on their arguments.
func TestDecisions_ArePure(t *testing.T) {
	banned := []string{"context", "net", "net/http", "os", "database/sql", "math/rand", "math/rand/v2"}
	for _, s := range sources(t) {
		if s.pkg != "peers/attention" && s.pkg != "peers/broker/rules" || s.test() {
			continue
		}
		for _, spec := range s.file.Imports {
			if p, _ := strconv.Unquote(spec.Path.Value); slices.Contains(banned, p) {
				t.Errorf("%s imports %s", s.path, p)
			}
		}
		if strings.Contains(s.text, "time.Now(") {
			t.Errorf("%s reads the clock", s.path)
		}
	}
}

// TestSharedFunctions_HaveOneHome keeps functions that every package needs from
// being written again.
func TestSharedFunctions_HaveOneHome(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.test() {
				continue
			}
			if home := homes[words(f.Name.Name)[0]]; home != "" && home != s.pkg {
				t.Errorf("%s: %s belongs in %s", s.fset.Position(f.Pos()), f.Name.Name, home)
			}
		}
	}
}

// TestFolders_AreSynced allows files to be created and renamed only in the
// package that syncs their folder, unless no promise depends on it.
func TestFolders_AreSynced(t *testing.T) {
	free := map[string]bool{
		"protocol/datafolder/write.go":           true,
		"protocol/datafolder/reach_linux.go":     true, // in a mount namespace that ends with the process
		"cmd/hubbub/manual.go":                   true, // can be made again
		"peers/agent/harness/harnesstest/c2a.go": true, // a program for tests
	}
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectorExpr); ok && !s.test() && !free[s.path] && slices.Contains([]string{"Rename", "Mkdir", "MkdirAll", "Link", "Symlink"}, x.Sel.Name) {
				if of, ok := x.X.(*ast.Ident); ok && of.Name == "os" {
					t.Errorf("%s: os.%s does not survive a power cut: protocol/datafolder does it", s.fset.Position(x.Pos()), x.Sel.Name)
				}
			}
			return true
		})
	}
}

// TestPackages_AreDocumented requires one package comment, in doc.go if the
// package has several files.
func TestPackages_AreDocumented(t *testing.T) {
	documented, folders := map[string]bool{}, map[string]int{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		folders[s.pkg]++
		if s.file.Doc == nil {
			continue
		}
		if documented[s.pkg] {
			t.Errorf("%s: the package is documented in two files", s.path)
		}
		documented[s.pkg] = true
	}
	for _, s := range sources(t) {
		if folders[s.pkg] > 1 && s.file.Doc != nil && s.file.Name.Name != "main" && path.Base(s.path) != "doc.go" && !s.test() {
			t.Errorf("%s: the package's documentation belongs in doc.go", s.path)
		}
	}
	for pkg := range folders {
		if !documented[pkg] {
			t.Errorf("package %s has no documentation", pkg)
		}
	}
}

// TestExportedNames_AreDocumented checks functions, methods, types and, unless
// their group is documented, constants and variables.
func TestExportedNames_AreDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil && d.Name.Name != "Error" {
					t.Errorf("%s: %s is not documented", s.fset.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				checkGroup(t, s, d)
			}
		}
	}
}

func checkGroup(t *testing.T, s source, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && spec.Doc == nil && d.Doc == nil {
				t.Errorf("%s: %s is not documented", s.fset.Position(spec.Pos()), spec.Name.Name)
			}
		case *ast.ValueSpec:
			for _, n := range spec.Names {
				if n.IsExported() && spec.Doc == nil && spec.Comment == nil && d.Doc == nil {
					t.Errorf("%s: %s is not documented", s.fset.Position(n.Pos()), n.Name)
				}
			}
		}
	}
}

// exportedReceiver reports whether a function is exported from its package: it is not a method of
// an unexported type.
func exportedReceiver(f *ast.FuncDecl) bool {
	name := receiverType(f)
	return name == nil || name.IsExported()
}

// receiverType returns the name of the type that f is a method of, nil if f is a
// function.
func receiverType(f *ast.FuncDecl) *ast.Ident {
	if f.Recv == nil {
		return nil
	}
	expr := f.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e
		default:
			return nil
		}
	}
}

// TestNames_SayWhatTheyHold looks for banned words in the names of folders,
// files, types and functions.
func TestNames_SayWhatTheyHold(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		for part := range strings.SplitSeq(strings.TrimSuffix(s.path, ".go"), "/") {
			checkName(t, s.path, part)
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				checkName(t, s.fset.Position(d.Pos()).String(), d.Name.Name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						checkName(t, s.fset.Position(spec.Pos()).String(), spec.Name.Name)
					}
				}
			}
		}
	}
}

func checkName(t *testing.T, where, name string) {
	for _, w := range words(name) {
		// A base URL is what every API calls it.
		if slices.Contains(bannedWords, w) && !strings.Contains(strings.ToLower(name), "baseurl") {
			t.Errorf("%s: the name %s holds the word %q, which is banned", where, name, w)
		}
	}
}

// words splits a name at capitals and punctuation, in lower case.
func words(name string) []string {
	var list []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			list = append(list, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	for _, r := range name {
		if !unicode.IsLetter(r) {
			flush()
			continue
		}
		if unicode.IsUpper(r) {
			flush()
		}
		word.WriteRune(r)
	}
	flush()
	return list
}

// realSleep is a call that makes a test wait for the clock on the wall.
var realSleep = regexp.MustCompile(`\btime\.Sleep\(`)

// TestTests_DoNotSleep allows a sleep only in a file that imports
// testing/synctest, where it takes no time. The body of a bubble uses
// timetest.Advance: after a mere sleep it would read what other goroutines of the
// bubble write at that moment.
func TestTests_DoNotSleep(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test() || !realSleep.MatchString(s.text) {
			continue
		}
		if !strings.Contains(s.text, `"testing/synctest"`) {
			t.Errorf("%s sleeps; wait for what must happen instead", s.path)
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isSelector(call.Fun, "synctest", "Test") || len(call.Args) != 2 {
				return true
			}
			if body, ok := call.Args[1].(*ast.FuncLit); ok {
				for _, pos := range sleepsOf(body.Body) {
					t.Errorf("%s: the body of a bubble sleeps; use timetest.Advance", s.fset.Position(pos))
				}
			}
			return true
		})
	}
}

// isSelector reports whether e is pkg.name.
func isSelector(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// sleepsOf returns the calls of time.Sleep in the statements of a function, without
// those of functions within it.
func sleepsOf(body ast.Node) (list []token.Pos) {
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && isSelector(call.Fun, "time", "Sleep") {
			list = append(list, call.Pos())
		}
		_, nested := n.(*ast.FuncLit)
		return !nested
	})
	return list
}

// topLevel lists what the root may hold, apart from dot files.
var topLevel = []string{
	"README.md", "CHANGELOG.md", "LICENSE", "Makefile", "go.mod", "go.sum",
	"protocol", "bus", "activitylog", "peers", "cmd", "scripts", "deploy", "docs",
}

// TestTopLevel_HoldsOnlyTheDesignsFolders compares the root with topLevel.
func TestTopLevel_HoldsOnlyTheDesignsFolders(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	built := []string{"bin", "dist", "tmp"} // not in git
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, ".") && !slices.Contains(topLevel, name) && !slices.Contains(built, name) {
			t.Errorf("%s stands at the top level, where only %s may", name, strings.Join(topLevel, ", "))
		}
	}
}
