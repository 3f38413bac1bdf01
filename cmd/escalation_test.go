package cmd_test

import (
	"slices"
	"strings"
	"testing"

	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// TestEscalation_PersonAnswersForAgent checks a message that an agent must answer while its
// program does not run. The person named in its settings is asked in the group, and their reply
// is the answer.
func TestEscalation_PersonAnswersForAgent(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	const person = "tg:1002"
	s := newFixture(t, "--harness=c2a", "--harness-command=false", "--deadline=1s", "--person="+person)
	will, ana := s.api.User("Will"), s.api.User("Ana")
	if ana.ID != 1002 {
		t.Fatalf("Ana is %d, not the person of the settings", ana.ID)
	}
	group := s.api.Supergroup(-1002, "ops")
	said := func(text string) (list []*models.Message) {
		for _, c := range s.api.Calls("sendMessage") {
			if c.Message != nil && strings.Contains(c.Message.Text, text) {
				list = append(list, c.Message)
			}
		}
		return list
	}

	s.api.Say(group, ana, "good morning")
	s.api.Say(group, will, "@hubbub_bot is the deploy blocked?")
	s.await("the question to Ana", func() bool { return len(said("cannot answer Will")) > 0 })
	question := said("cannot answer Will")[0]
	s.api.Reply(question, will, "I think it is")
	s.api.Reply(question, ana, "no, go ahead")
	s.await("the answer", func() bool { return len(said("answers:")) > 0 })
	s.await("the end of the event", func() bool {
		return slices.ContainsFunc(s.publications(), func(p *publication) bool { return contentOf[protocol.Disposition](p).Disposition == "responded" })
	})
	if texts := s.api.Texts(group.ID); !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "answers: no, go ahead") }) ||
		len(said("answers:")) != 1 || len(said("I could not answer")) > 0 {
		t.Errorf("the group reads %q", texts)
	}
}
