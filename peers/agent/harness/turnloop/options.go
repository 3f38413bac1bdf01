package turnloop

import (
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/defaults"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Loop. Nil is valid.
type Options struct {
	MaxRounds    int           // requests in one turn; default 16
	MaxTokens    int           // output tokens of one request; default 4096
	TokenBudget  int64         // input and output tokens of one turn; default 400,000
	Time         time.Duration // of one turn; default 5m
	Retries      int           // repetitions of one request; default 5
	HistoryTurns int           // remembered of one conversation; default 20
	HistoryBytes int           // of them as JSON; default 64 KiB
	ResultBytes  int           // of one tool result; default 32 KiB
	History      History       // default: in memory, 256 conversations
	Clock        harness.Clock
	Log          *zerolog.Logger
}

func (o *Options) withDefaults() Options {
	out := defaults.Of(o)
	defaults.Positive(&out.MaxRounds, 16)
	defaults.Positive(&out.MaxTokens, 4096)
	defaults.Positive(&out.TokenBudget, 400_000)
	defaults.Positive(&out.Time, 5*time.Minute)
	defaults.Positive(&out.Retries, 5)
	defaults.Positive(&out.HistoryTurns, 20)
	defaults.Positive(&out.HistoryBytes, 64<<10)
	defaults.Positive(&out.ResultBytes, 32<<10)
	defaults.Set(&out.History, NewMemoryHistory(256))
	defaults.Log(&out.Log)
	return out
}
