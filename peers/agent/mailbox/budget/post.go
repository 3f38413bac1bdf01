package budget

import (
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/peers/store"
)

// A PostContext has the recorded facts that decide whether the agent may post to a chat.
type PostContext struct {
	Left     bool                     // the agent was asked to leave and has not been named since
	Halted   bool                     // by a person, there or everywhere
	Exchange attention.ExchangeAction // about the messages from agents there since a person wrote
	Posts    int                      // posts there within the budget window
}

// FactsForPost returns the facts about a chat from AssignedChat.
func FactsForPost(v *mailbox.View, there *mailbox.Entry) (f PostContext) {
	_, f.Halted = halted(v, &mailbox.Turn{Chat: there.Chat})
	f.Left, f.Exchange = v.HasLeft(there), v.Exchange(there).Next(time.Now())
	f.Posts = store.Value[int](v.Tx, `SELECT count(*) FROM sent WHERE chat = ? AND key LIKE 'post:%' AND sent_at > ?`,
		there.Chat, periodStart(v.Tx))
	return f
}
