package attention

import "testing"

func TestBudget_NamesTheNarrowestBound(t *testing.T) {
	b := Budget{AuthorTurns: 2, ChatTurns: 3, Turns: 5, ChatTokens: 100, Tokens: 200}
	for _, tt := range []struct {
		spent  Usage
		reason string
		bound  int64
	}{
		{Usage{}, "", 0},
		{Usage{AuthorTurns: 1, ChatTurns: 2, Turns: 4, ChatTokens: 99, Tokens: 199}, "", 0},
		{Usage{AuthorTurns: 2, ChatTurns: 3, Turns: 5, ChatTokens: 100, Tokens: 200}, BudgetAuthorTurns, 2},
		{Usage{AuthorTurns: 1, ChatTurns: 3, Turns: 5}, BudgetChatTurns, 3},
		{Usage{ChatTokens: 101, Turns: 5}, BudgetChatTokens, 100},
		{Usage{Turns: 5, Tokens: 200}, BudgetTurns, 5},
		{Usage{Tokens: 200}, BudgetTokens, 200},
	} {
		if reason, bound := b.Exceeded(tt.spent); reason != tt.reason || bound != tt.bound {
			t.Errorf("%+v: %q, %d; want %q, %d", tt.spent, reason, bound, tt.reason, tt.bound)
		}
	}
	if reason, _ := (Budget{}).Exceeded(Usage{AuthorTurns: 1 << 30, Turns: 1 << 30, Tokens: 1 << 60}); reason != "" {
		t.Errorf("no budget holds a turn back: %s", reason)
	}
}
