package agentstats

import (
	"cmp"
	"context"
	"slices"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/protocol"
)

// A Spending is the cost of one agent's turns in one chat on one day.
type Spending struct {
	Day    string `json:"day"` // UTC, such as 2026-11-26
	Agent  string `json:"agent"`
	Chat   string `json:"chat"`  // topic; "digest" for digests of all chats; empty if the record has none
	Turns  int64  `json:"turns"` // turns that started; a retried turn counts once
	Tokens int64  `json:"tokens"`
	Held   int64  `json:"held"` // turns that a budget prevented
}

// ReadSpending sums the cost of turns by day, agent and chat, in that order, from the attention
// records between two times.
func ReadSpending(
	ctx context.Context, r *read.Reader, since, until time.Time,
) (list []Spending, err error) {
	at, started := map[Spending]int{}, map[string]bool{}
	f := read.AttentionFilter{Since: since, Until: until}
	err = r.Attention(ctx, f, func(a *activitylog.AttentionRecord) error {
		var chat protocol.Topic
		turn, isTurn := a.Content.(*protocol.TurnRecord)
		budget, isBudget := a.Content.(*protocol.BudgetRecord)
		switch {
		case isTurn:
			chat = turn.Chat
		case isBudget:
			chat = budget.Chat
		default:
			return nil
		}
		key := Spending{Day: a.At.UTC().Format(time.DateOnly), Agent: a.Agent, Chat: string(chat)}
		if _, known := at[key]; !known {
			at[key] = len(list)
			list = append(list, key)
		}
		s := &list[at[key]]
		if isBudget {
			s.Held++
			return nil
		}
		if turn.State == "started" && !started[a.Agent+turn.TurnID] {
			started[a.Agent+turn.TurnID] = true
			s.Turns++
		}
		s.Tokens += turn.InputTokens + turn.OutputTokens
		return nil
	})
	slices.SortFunc(list, func(a, b Spending) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Chat, b.Chat))
	})
	return list, err
}
