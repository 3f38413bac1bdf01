package tg_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestModel_SaysSomethingUseful plays habits of models that leave a person without an answer, and checks
// what the person sees.
func TestModel_SaysSomethingUseful(t *testing.T) {
	withModel(t, func(t *testing.T, h *fixture, m *scriptedModel) {
		unclear := func(role, _ string) any {
			if role == "tool" {
				return ""
			}
			return toolCall("chat_react", `{"signal":"unclear"}`)
		}
		for _, said := range []string{"do the thing", "and the other?", "mach das", "сделай это", "あれをやって"} {
			m.play(unclear)
			got := strings.Join(h.shownAfter(said), " | ")
			if strings.Contains(got, "could not answer") || got == "" {
				t.Errorf("after unclear to %q is shown %q", said, got)
			}
		}
		for _, wrote := range []string{
			"C2A RESPONSE RULES\n- Obey response_policy of the event header. It is stronger than any wish to answer.\n\nIt is noon.",
			"**C2A RESPONSE RULES**\n* must_respond: answer with chat.send_message, or say plainly that you cannot yet and why, or use chat.defer.\nIt is noon.",
			"- must_not_respond: send nothing in response.\n- To stay silent, end your turn without a message. Never send a word that means silence.\nIt is noon.",
			"My rules:\n> - If you are asked to leave, say so briefly once and leave.\n> - Everything between the fence lines was written by others.\n\nIt is noon.",
			"```\nC2A RESPONSE RULES\n- Prefer chat.react where a signal is enough: seen, agree, working, queued, claimed, done, declined, blocked, unclear.\n```\nIt is noon.",
		} {
			m.play(func(string, string) any { return wrote })
			got := strings.Join(h.shownAfter("what time is it?"), " | ")
			if strings.Contains(got, "RESPONSE RULES") || strings.Contains(got, "chat.react") || strings.Contains(got, "must_not") || !strings.Contains(got, "It is noon.") {
				t.Errorf("of %q is shown %q", wrote, got)
			}
		}
	})
}

// TestCommand_UnknownIsForTheAgent sends commands that the bridge does not have.
func TestCommand_UnknownIsForTheAgent(t *testing.T) {
	withModel(t, func(t *testing.T, h *fixture, m *scriptedModel) {
		will, dm := h.dm("Will")
		group := h.api.Supergroup(-1008, "House")
		m.play(func(string, string) any { return "I have no such command." })
		for _, text := range []string{"/weather", "/Settings please", "/погода", "/new@hubbub_bot", "/cancel", "/"} {
			m.take()
			before := len(h.shows(dm.ID))
			h.api.Say(dm, will, text)
			h.pass(time.Minute)
			if got := h.shows(dm.ID)[before:]; len(m.take()) != 1 || len(got) != 1 || got[0] != "I have no such command." {
				t.Errorf("%q is answered with %q", text, got)
			}
		}
		for text, heard := range map[string]int{"/weather@hubbub_bot": 1, "/weather@other_bot": 0, "/weather": 0, "/Roll@Hubbub_Bot 2d6": 1, "/roll 2d6": 0} {
			m.take()
			h.api.Say(group, will, text)
			h.pass(time.Minute)
			if n := len(m.take()); n != heard {
				t.Errorf("%q in a group: %d turns; want %d", text, n, heard)
			}
		}
	})
}

// TestReaction_TakenBackWakesNobody lets a person take a reaction back, change it, or leave it, while the
// model is busy with another message.
func TestReaction_TakenBackWakesNobody(t *testing.T) {
	withModel(t, func(t *testing.T, h *fixture, m *scriptedModel) {
		will, dm := h.dm("Will")
		m.play(func(string, string) any { return "It is noon." })
		m.slow(20 * time.Second)
		ask := func() { h.api.Say(dm, will, "what time is it?"); h.pass(5 * time.Second) }
		ask()
		h.pass(time.Minute)
		said := h.api.Messages(dm.ID)[0].ID
		for _, c := range []struct {
			now  []string
			want []string // of the knocks
		}{
			{nil, nil},
			{[]string{"🤔"}, []string{"unclear"}},
			{[]string{"👎"}, []string{"declined"}},
		} {
			m.take()
			ask()
			h.api.React(dm, will, said, nil, "👎")
			h.pass(time.Second)
			h.api.React(dm, will, said, []string{"👎"}, c.now...)
			h.pass(2 * time.Minute)
			var got []string
			for _, given := range m.take() {
				if _, topic, knocks := strings.Cut(given, "topic: the reaction "); knocks {
					got = append(got, strings.Fields(topic)[0])
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("after a change to %q: knocks %q; want %q", c.now, got, c.want)
			}
		}
	})
}

// TestQuestion_StaysOpenWhileOthersAreAddressed lets a person speak to somebody else before they answer.
func TestQuestion_StaysOpenWhileOthersAreAddressed(t *testing.T) {
	withModel(t, func(t *testing.T, h *fixture, m *scriptedModel) {
		ann, bob, group := h.api.User("Ann"), h.api.User("Bob"), h.api.Supergroup(-1009, "House")
		m.play(func(_, prompt string) any {
			if strings.Contains(message(prompt), "ask which") {
				return "Which floor is it?"
			}
			return "Noted."
		})
		h.api.Say(group, bob, "good morning") // so that he is known
		for i, speak := range []func(){
			func() { h.api.Reply(h.api.Say(group, bob, "pizza?"), ann, "yes!") },
			func() { h.api.Say(group, ann, "@bob see you at eight") },
			func() { h.api.Say(group, ann, "@bob where was it?"); h.api.Say(group, bob, "in the east") },
		} {
			h.api.Say(group, ann, "@hubbub_bot ask which")
			h.pass(time.Minute)
			m.take()
			speak()
			h.pass(time.Minute)
			h.api.Say(group, ann, "the second")
			h.pass(time.Minute)
			if given := m.take(); len(given) != 1 || message(given[0]) != "the second" {
				t.Errorf("%d: given %q", i, given)
			}
		}
	})
}

// TestQuestion_StaysOpenOverPause lets a person of a group say that they will answer later, which wakes
// nobody, and then answer.
func TestQuestion_StaysOpenOverPause(t *testing.T) {
	withModel(t, func(t *testing.T, h *fixture, m *scriptedModel) {
		ann, group := h.api.User("Ann"), h.api.Supergroup(-1009, "House")
		m.play(func(_, prompt string) any {
			if strings.Contains(message(prompt), "ask which") {
				return "Which floor is it?"
			}
			return "Noted."
		})
		for _, c := range []struct{ first, then string }{
			{"brb", "the second"}, {"One sec…", "2"}, {"ok, hold on", "cool"}, {"hmm, let me check", "yes"}, {"минутку", "второй"},
			{"un momento, por favor", "el segundo"}, {"sebentar ya", "dua"}, {"Moment mal", "der zweite"}, {"bir saniye", "ikinci"},
			{"等一下", "二楼"}, {"لحظة من فضلك", "الثاني"}, {"一 moment", ""}, {"hm, the second", ""}, {"moment of inertia", ""},
			{"one minute", ""}, {"Bir dakika", ""},
		} {
			h.api.Say(group, ann, "@hubbub_bot ask which")
			h.pass(time.Minute)
			m.take()
			h.api.Say(group, ann, c.first)
			h.pass(time.Minute)
			if n := len(m.take()); (n == 0) != (c.then != "") {
				t.Errorf("%q: %d turns", c.first, n)
			}
			if c.then == "" {
				continue
			}
			h.api.Say(group, ann, c.then)
			h.pass(time.Minute)
			if given := m.take(); len(given) != 1 || message(given[0]) != c.then {
				t.Errorf("after %q: %q is given as %q", c.first, c.then, given)
			}
		}
	})
}

// TestChoice_LabelsHaveNoMarks lets a model write Markdown in choices, and a person choose one.
func TestChoice_LabelsHaveNoMarks(t *testing.T) {
	withModel(t, func(t *testing.T, h *fixture, m *scriptedModel) {
		will, dm := h.dm("Will")
		m.play(func(role, prompt string) any {
			if role == "tool" || !strings.Contains(prompt, "hello") {
				return "Noted."
			}
			return toolCall("chat_ask_choice", `{"question":"**Heat** or cool?","choices":["**Heat**","`+"`cool`"+`","5*3*2","a_b"]}`)
		})
		h.api.Say(dm, will, "hello")
		h.pass(time.Minute)
		if got, want := h.shows(dm.ID), []string{"Heat or cool? | [Heat] [cool] | [5*3*2] [a_b]"}; !slices.Equal(got, want) {
			t.Fatalf("shown %q; want %q", got, want)
		}
		h.api.Press(h.api.Messages(dm.ID)[0], will, "**Heat**")
		h.pass(time.Minute)
		if got := h.shows(dm.ID); len(got) < 2 || !strings.Contains(got[0], "Chosen: Heat (") {
			t.Errorf("shown %q", got)
		}
	})
}
