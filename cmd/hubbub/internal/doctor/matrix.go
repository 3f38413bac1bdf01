package doctor

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"hubbub/bus/report"
	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/internal/program"
	"hubbub/peers/mx"
	"hubbub/peers/tg"
)

// checkMatrix checks the homeserver and the bot of Matrix, if the settings have one.
func (x *checks) checkMatrix(ctx context.Context, env *program.Env) []tg.Finding {
	if x.homeserver = cmp.Or(x.homeserver, os.Getenv(program.EnvName("homeserver"))); x.homeserver == "" {
		return nil
	}
	token, err := env.Secret("MATRIX_ACCESS_TOKEN")
	if err != nil {
		return []tg.Finding{problem(sentence(err.Error()), "Correct MATRIX_ACCESS_TOKEN or the file that it names.")}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	bot, err := mx.Check(ctx, x.homeserver, &mx.Options{Token: token, User: x.matrixUser})
	switch {
	case errors.Is(err, mx.ErrToken):
		return []tg.Finding{problem("The homeserver refuses the access token of the bot.",
			"Make a new one, and set MATRIX_ACCESS_TOKEN.")}
	case err != nil:
		return []tg.Finding{problem(sentence(err.Error()), "Check [matrix] homeserver and the network.")}
	}
	if bot = cmp.Or(bot, x.matrixUser); bot == "" {
		return []tg.Finding{ok(x.homeserver + " answers.")}
	}
	if list, err := busclient.Peers(ctx, env); err == nil &&
		!slices.ContainsFunc(list, func(p report.Peer) bool { return p.ID == "mx:"+bot }) {
		return []tg.Finding{problem(bot+" is not connected to the bus.", "Start hubbub-matrix, or see its log.")}
	}
	return []tg.Finding{ok(bot + " at " + x.homeserver + ".")}
}
