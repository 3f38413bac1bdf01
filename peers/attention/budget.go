package attention

// A Budget bounds what an agent may do within BudgetWindow: turns for one author, in one
// chat and in all, tokens in one chat and in all, and how often it speaks first in one chat.
// 0 is no bound.
type Budget struct {
	AuthorTurns, ChatTurns, Turns int
	ChatTokens, Tokens            int64
	ChatPosts                     int
}

// BudgetWindowHours is how far back a budget looks: so a bound never ends at midnight,
// when everybody would go on at once.
const BudgetWindowHours = 24

// DefaultBudget stops what runs away, and no person: an author who is answered every three
// minutes, day and night, stays within it.
var DefaultBudget = Budget{AuthorTurns: 500, ChatTurns: 1000, Turns: 5000, ChatTokens: 20_000_000, Tokens: 100_000_000, ChatPosts: 20}

// Usage is what turns have taken within the window.
type Usage struct {
	AuthorTurns, ChatTurns, Turns int
	ChatTokens, Tokens            int64
}

// The reasons why a budget holds a turn back.
const (
	BudgetAuthorTurns = "budget_author_turns"
	BudgetChatTurns   = "budget_chat_turns"
	BudgetTurns       = "budget_turns"
	BudgetChatTokens  = "budget_chat_tokens"
	BudgetTokens      = "budget_tokens"
	BudgetPosts       = "budget_posts" // holds no turn back, but a word that nobody asked for
)

// Exceeded returns why one more turn would pass the budget, and the bound that it would
// pass; "" if it may run. The narrowest bound is named.
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
