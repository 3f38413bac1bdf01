package attention

// A Budget limits what an agent may do within BudgetWindowHours: turns for one author, in one
// chat and in total; tokens in one chat and in total; and how often it speaks first in one chat.
// 0 means no limit.
type Budget struct {
	AuthorTurns int   `flag:"budget-author-turns" usage:"turns for one author (for a Chorus inbox: for all of its senders) within 24 hours; 0 for no bound"`
	ChatTurns   int   `flag:"budget-chat-turns" usage:"turns in one chat within 24 hours; 0 for no bound"`
	Turns       int   `flag:"budget-turns" usage:"turns within 24 hours; 0 for no bound"`
	ChatTokens  int64 `flag:"budget-chat-tokens" usage:"tokens that turns of one chat take within 24 hours; 0 for no bound"`
	Tokens      int64 `flag:"budget-tokens" usage:"tokens that turns take within 24 hours; 0 for no bound"`
	ChatPosts   int   `flag:"budget-posts" usage:"times that it speaks first in one chat (chat.post) within 24 hours; 0 for no bound"`
}

// BudgetWindowHours is the length of the sliding window. A calendar day would let all agents
// continue at midnight together.
const BudgetWindowHours = 24

// DefaultBudget stops runaway agents, but no person: an author who gets an answer every three
// minutes, day and night, stays within it.
var DefaultBudget = Budget{AuthorTurns: 500, ChatTurns: 1000, Turns: 5000, ChatTokens: 20_000_000, Tokens: 100_000_000,
	ChatPosts: 20}

// Usage is what turns have used within the window.
type Usage struct {
	AuthorTurns, ChatTurns, Turns int
	ChatTokens, Tokens            int64
}

// Reasons why a budget defers a turn.
const (
	BudgetAuthorTurns = "budget_author_turns"
	BudgetChatTurns   = "budget_chat_turns"
	BudgetTurns       = "budget_turns"
	BudgetChatTokens  = "budget_chat_tokens"
	BudgetTokens      = "budget_tokens"
	BudgetPosts       = "budget_posts" // defers no turn, but suppresses an unsolicited message
)

// Exceeded returns the reason why one more turn would exceed the budget, and the limit. The
// reason is "" if the turn may run. The narrowest limit comes first.
func (b Budget) Exceeded(s Usage) (reason string, bound int64) {
	for _, part := range []struct {
		reason       string
		bound, spent int64
	}{
		{BudgetAuthorTurns, int64(b.AuthorTurns), int64(s.AuthorTurns)},
		{BudgetChatTurns, int64(b.ChatTurns), int64(s.ChatTurns)},
		{BudgetChatTokens, b.ChatTokens, s.ChatTokens},
		{BudgetTurns, int64(b.Turns), int64(s.Turns)},
		{BudgetTokens, b.Tokens, s.Tokens},
	} {
		if part.bound > 0 && part.spent >= part.bound {
			return part.reason, part.bound
		}
	}
	return "", 0
}
