package rules

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLabel_ReturnsTheCanonicalForm(t *testing.T) {
	for text, want := range map[string]string{
		"@arc":                    "@arc",
		"@codex-luna":             "@codex-luna",
		"codex-luna":              "@codex-luna",
		"@Codex_Luna":             "@codex-luna",
		"@arc.main":               "@arc.main",
		"@arc.dev.mini":           "@arc.dev.node:mini",
		"@arc.profile:dev.main":   "@arc.main.profile:dev",
		"@lattices#codex?5.5":     "@lattices.harness:codex.model:5-5",
		"@lattices.main#claude":   "@lattices.main.harness:claude",
		"@lattices?sonnet":        "@lattices.model:sonnet",
		"@arc.branch:a/b.host:m1": "@arc.a-b.node:m1",
		"@агент":                  "@агент",
	} {
		got, err := parseLabel(text)
		if err != nil || got.String() != want {
			t.Errorf("ParseLabel(%q) = %q, %v; want %q", text, got, err, want)
		}
		again, err := parseLabel(got.String())
		if err != nil || again != got {
			t.Errorf("the canonical form %q is read as %+v, %v; want %+v", got, again, err, got)
		}
	}
	for _, text := range []string{
		"", "@", " ", "@arc.a.b.c", "@arc.profile:", "@arc#", "@arc?", "@arc@mini#main", "@arc?sonnet#claude",
		"@arc..b", "@.arc", "@arc.color:red", "@arc.main.workspace:dev", "@arc main", "@#codex", "@profile:dev",
	} {
		if got, err := parseLabel(text); err == nil {
			t.Errorf("ParseLabel(%q) = %+v; want an error", text, got)
		}
	}
	if got, _ := parseLabel("@arc.dev.mini"); got != (label{Name: "arc", Workspace: "dev", Node: "mini"}) {
		t.Errorf("@arc.dev.mini is %+v", got)
	}
}

func TestFindMentions_FindsLabels(t *testing.T) {
	for text, want := range map[string][]string{
		"Compare @arc.main.profile:dev-browser with @hudson, then ping @arc.main.profile:dev-browser and @lattices#codex?5.5.": {
			"@arc.main.profile:dev-browser", "@hudson", "@lattices.harness:codex.model:5-5",
		},
		"mail bob@arc.dev, a@b":       nil,
		"@lead status?":               {"!@lead"},
		"  @lead, @w3: please look":   {"!@lead", "!@w3"},
		"@lead and @w3":               {"!@lead", "@w3"},
		"hello @lead!":                {"@lead"},
		"(@lead) \"@w3\"":             {"@lead", "@w3"},
		"see https://x.org/@lead":     nil,
		"@":                           nil,
		"@@lead":                      nil,
		"@lead @lead":                 {"!@lead"},
		"":                            nil,
		"\u00a0@lead hi":              {"!@lead"},
		"\xff@lead":                   nil,
		"**@lead** status?":           {"@lead"},
		"@lead/@w3 who?":              {"!@lead"},
		"@lead- status":               {"!@lead"},
		"@lead.branch:a/b now":        {"!@lead.a-b"},
		"@arc.a.b.c first, then @arc": {"@arc"},
	} {
		var got []string
		for _, f := range FindMentions(text) {
			s := f.Label.String()
			if f.Leading {
				s = "!" + s
			}
			got = append(got, s)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("FindMentions(%q) (-want +got):\n%s", text, diff)
		}
	}
}

func FuzzMentions(f *testing.F) {
	f.Add("@lead status? @arc.main#codex?5.5.")
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range FindMentions(text) {
			again, err := parseLabel(m.Label.String())
			if err != nil || again != m.Label {
				t.Fatalf("%q holds %+v, which is written %q and read as %+v, %v", text, m.Label, m.Label, again, err)
			}
		}
	})
}
