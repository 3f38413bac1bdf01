package bridge

import (
	"slices"
	"testing"
)

// TestTransitions_LeadToKnownStates checks that every trigger leads to a state of the
// table, that only Asking and routes lead back to the same state, and that a route gives
// a chat an agent in every state.
func TestTransitions_LeadToKnownStates(t *testing.T) {
	states := []State{Idle, Asking, Assigned}
	triggers := []trigger{triggerMessage, triggerAgentLost, triggerSpawnFailed, triggerRoute, triggerAgentBack, triggerClosed}
	for _, from := range states {
		for trigger, to := range transitions[from] {
			if !slices.Contains(states, to) || !slices.Contains(triggers, trigger) {
				t.Errorf("%s leads from %s to %s", trigger, from, to)
			}
			if from == to && from != Asking && trigger != triggerRoute {
				t.Errorf("%s leaves a chat %s, so it needs no entry", trigger, from)
			}
		}
		if transitions[from][triggerRoute] != Assigned {
			t.Errorf("a route leads from %s to %q", from, transitions[from][triggerRoute])
		}
	}
	if len(transitions) != len(states) {
		t.Errorf("%d of %d states have transitions", len(transitions), len(states))
	}
}

func TestParseCommand(t *testing.T) {
	for _, c := range []struct{ text, verb, rest string }{
		{"/work", VerbWork, ""},
		{" /WORK\n@lead write the notes", VerbWork, "@lead write the notes"},
		{"/ask @lead why?", VerbAsk, "@lead why?"},
		{"/say hello", "", ""},
		{"work", "", ""},
		{"/unknown", "", ""},
	} {
		if verb, rest := ParseCommand("/", c.text); verb != c.verb || rest != c.rest {
			t.Errorf("ParseCommand(%q) = %q, %q; want %q, %q", c.text, verb, rest, c.verb, c.rest)
		}
	}
}

func TestCutWorkID(t *testing.T) {
	for _, c := range []struct{ text, id, rest string }{
		{"wi-mfzwizlt", "wi-mfzwizlt", ""},
		{"wi-1 @lead", "wi-1", "@lead"},
		{"WI_01KABC @lead", "WI_01KABC", "@lead"},
		{"Wi-Fi is down", "", "Wi-Fi is down"},
		{"Wi-Fi", "", "Wi-Fi"},
		{"@lead wi-1 is late", "", "@lead wi-1 is late"},
	} {
		if id, rest := cutWorkID(c.text); id != c.id || rest != c.rest {
			t.Errorf("cutWorkID(%q) = %q, %q; want %q, %q", c.text, id, rest, c.id, c.rest)
		}
	}
}

func TestLeadingName(t *testing.T) {
	for text, want := range map[string]string{
		"@lead, have a look":  "lead",
		"@lead.main go":       "lead",
		"have a look, @lead":  "",
		"write to me@example": "",
		"":                    "",
	} {
		if got := LeadingName(text); got != want {
			t.Errorf("LeadingName(%q) = %q; want %q", text, got, want)
		}
	}
}
