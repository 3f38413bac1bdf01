package turnloop

import (
	"time"

	"hubbub/peers/agent/harness"

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
	var out Options
	if o != nil {
		out = *o
	}
	positive(&out.MaxRounds, 16)
	positive(&out.MaxTokens, 4096)
	positive(&out.TokenBudget, 400_000)
	positive(&out.Time, 5*time.Minute)
	positive(&out.Retries, 5)
	positive(&out.HistoryTurns, 20)
	positive(&out.HistoryBytes, 64<<10)
	positive(&out.ResultBytes, 32<<10)
	if out.History == nil {
		out.History = NewMemoryHistory(256)
	}
	if out.Log == nil {
		nop := zerolog.Nop()
		out.Log = &nop
	}
	return out
}

func positive[T int | int64 | time.Duration](field *T, standard T) {
	if *field <= 0 {
		*field = standard
	}
}
