package laws

import (
	"go/ast"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// replaced lists names that once stood for an idea of a package and that the
// field's own terms have replaced. Nothing in these folders declares them
// again: no file, type, function, method or field.
var replaced = map[string][]string{
	"peers/bridge": {
		"Desk", "clerk", "Order", "Ordered", "carryOut", "ways", "news", "said", "gone", "heard", "Standing", "standings",
		"ObligationStanding", "Stand", "Pass", "PassTo", "handOn", "takeUp", "meet", "Host", "Surface", "tellSiblings", "hooked",
	},
	"peers/tg": {
		"happening", "intake", "some", "turnAway", "bearable", "judge", "heed", "pace", "rest", "sibling", "tellSiblings", "hooked", "desk",
		"killHouse", "toldPressers", "hostOfEvening",
	},
	"peers/chorus": {
		"company", "meant", "echo", "troubles", "outward", "gates", "hooked", "desk", "order",
		"killing", "world",
	},
	"peers/broker": {
		"shelf", "shelves", "held", "things", "roll", "hear", "hearOf", "said", "there", "lost", "check", "refuse", "known", "repeats",
		"mint", "fold", "duty", "owe", "owed", "owes", "rung", "climb", "landed", "want", "wanted", "Standing",
	},
	"protocol/collab": {"duty", "owe", "owed", "owes", "Standing", "rung"},
	"peers/attention": {"rung", "climb", "putUp", "ladder", "Standing", "Owed"},
	"peers/agent": {
		"Place", "PutOff", "comeBack", "bringBack", "SeeToObligations", "Afford", "CountAnew", "Hear", "Spoken", "lose", "lost", "untold",
		"told", "Nameless", "Stranger", "Carrier", "rung", "climb", "putUp", "ladder", "poke", "Poke", "try", "look", "box", "kit", "keeper", "Keeper",
		"fate", "rungs", "mood", "whatever", "toldAgent", "toldMended",
	},
	"activitylog": {
		"Gist", "inWords", "Pass", "keeper", "Keep", "footprint", "ledger", "leafing", "auditor", "heads", "branch", "live", "readied", "aside",
		"takeOver", "poke",
		"alarm", "goOn", "sickSink", "threes",
	},
	"bus": {
		"first", "firsts", "ruling", "Claimant", "Vote", "lull", "tally", "usual", "drowsy", "ending", "life", "holder", "tenant",
		"cord", "admission", "overuse", "Voice", "voice", "aside",
		"tie", "told",
	},
	"bus/console":      {"odd", "oddity", "facts", "look", "gate", "tell", "note", "owed"},
	"protocol/wire":    {"gather", "farewell", "behind"},
	"peers/system":     {"doubt", "gone", "mute", "life", "GivenUp", "keeper", "house", "trial", "revive"},
	"peers/outbox":     {"Hurry", "Park", "Began", "Judge", "Verdict", "hurry", "verdict", "letter", "letters", "trial"},
	"peers/peer":       {"Judge", "Verdict", "Reception", "verdict", "Needless"},
	"peers/store":      {"Doing", "After", "Itself", "about"},
	"cmd/internal":     {"letters", "talk", "narrator", "passage", "stage", "screen"},
	"cmd/hubbub":       {"examination", "under", "wrong", "meant", "ghosts", "whole", "owe"},
	"peers/collab":     {"world", "inWorld"},
	"cmd/hubbub-agent": {"house", "foreigners", "foreignHouse"},
	"peers/netguard":   {"outside", "guard", "Guard"},
	"peers/proc":       {"child", "Child"},
}

// TestNames_AreTheFieldsTerms looks for replaced names.
func TestNames_AreTheFieldsTerms(t *testing.T) {
	for _, s := range sources(t) {
		var banned []string
		for folder, names := range replaced {
			if s.pkg == folder || strings.HasPrefix(s.pkg, folder+"/") {
				banned = append(banned, names...)
			}
		}
		if len(banned) == 0 {
			continue
		}
		check := func(id *ast.Ident) {
			if slices.Contains(banned, id.Name) {
				t.Errorf("%s: the name %s was replaced", s.fset.Position(id.Pos()), id.Name)
			}
		}
		if file := strings.TrimSuffix(strings.TrimSuffix(path.Base(s.path), ".go"), "_test"); slices.Contains(banned, file) {
			t.Errorf("%s: the name %s was replaced", s.path, file)
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				check(d.Name)
			case *ast.GenDecl:
				declaredNames(d, check)
			}
		}
	}
}

// declaredNames calls f with each name that a declaration introduces, and with
// the fields and methods of its types.
func declaredNames(d *ast.GenDecl, f func(*ast.Ident)) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, id := range spec.Names {
				f(id)
			}
		case *ast.TypeSpec:
			f(spec.Name)
			ast.Inspect(spec.Type, func(n ast.Node) bool {
				if field, ok := n.(*ast.Field); ok {
					for _, id := range field.Names {
						f(id)
					}
				}
				return true
			})
		}
	}
}

// lastFreeSubject is the last commit whose subject did not need to have the form.
const lastFreeSubject = "f8a98bda"

// TestCommits_HaveAnAreaAndAShortSubject checks the subjects of commits. It is skipped where the
// history is not available, as in an archive.
func TestCommits_HaveAnAreaAndAShortSubject(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "log", "--no-merges", "--format=%h %s", lastFreeSubject+"..HEAD").Output()
	if err != nil {
		t.Skip("the history is not here")
	}
	form := regexp.MustCompile(`^[a-z.][A-Za-z0-9 ,./_-]*: \S`)
	for line := range strings.Lines(string(out)) {
		hash, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		if len([]rune(subject)) > 72 || !form.MatchString(subject) {
			t.Errorf("%s: %q; want `area: what it does now` in at most 72 characters", hash, subject)
		}
	}
}
