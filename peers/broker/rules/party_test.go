package rules

import (
	"testing"

	"hubbub/protocol"
)

// TestBareName_LeavesOutFamilyAndRun checks the name of a party in records.
func TestBareName_LeavesOutFamilyAndRun(t *testing.T) {
	for id, want := range map[string]string{
		"agent:lead": "lead agent:lead agent", "cli:will.7f3a": "will cli:will person", "cli:will": "will cli:will person", "cli:.x": ".x cli:.x person", "tg:7": "7 tg:7 person",
		"agent:a.b": "a.b agent:a.b agent", "lead": "lead lead agent", "chorus:x": "x chorus:x person",
	} {
		kind := map[bool]string{true: "person", false: "agent"}[protocol.IsPerson(protocol.PeerID(id))]
		if p := PartyOf(protocol.PeerID(id)); p.Name+" "+string(p.ID)+" "+kind != want {
			t.Errorf("%s is %v, %s; want %s", id, p, kind, want)
		}
	}
	c := Caller{Identity: "agent:a", Names: []string{"b", "team-*"}}
	for name, may := range map[string]bool{"a": true, "b": true, "team-x": true, "c": false, "team": false, "": false} {
		if c.MayBeNamed(name) != may {
			t.Errorf("agent:a may be named %q: %v", name, !may)
		}
	}
	nobody, person := Caller{Identity: "agent:a", agent: "agent:b"}, Caller{Identity: "cli:will.1", Person: true}
	for id, want := range map[protocol.PeerID][3]bool{
		"agent:a": {true, true, true}, "agent:b": {true, true, true}, "agent:c": {false, false, true}, "": {false, false, true}, "cli:will": {false, false, true},
	} {
		if got := [3]bool{nobody.Is(id), nobody.ActsFor(id), person.ActsFor(id)}; got != want {
			t.Errorf("%q: %v; want %v", id, got, want)
		}
	}
	if !person.Is("cli:will") || person.Is("cli:will.1") || person.Is("") {
		t.Error("a person is not the one of the command line, whatever run it is")
	}
}
