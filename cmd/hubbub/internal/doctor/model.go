package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"hubbub/peers/agent/harness/model"
	"hubbub/peers/tg"
)

// checkModel asks the endpoint of the agents' model for its models. It checks that the endpoint
// answers, accepts the key and has the model.
func (x *checks) checkModel(ctx context.Context, key string) tg.Finding {
	h := model.APIs[x.harness].New(&model.Options{BaseURL: x.baseURL, Model: x.model, Key: func() (string, error) { return key, nil }})
	at := h.Endpoint()
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Second, errors.New("no answer within 5s"))
	defer cancel()
	status, models, err := h.Models(ctx)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	switch {
	case err != nil:
		return problem(fmt.Sprintf("The model at %s is not reached: %s.", at.BaseURL, cmp.Or(context.Cause(ctx), err)), "Start it, or mend base-url in [agent]; else look at the network, and a proxy in HTTPS_PROXY.")
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return problem(fmt.Sprintf("The model at %s refuses the key (%d).", at.BaseURL, status), "Put a good one into "+at.KeyName+" and start `hubbub up` again.")
	case status != http.StatusOK || len(models) == 0:
		return ok(fmt.Sprintf("%s is there. It lists no models, so whether it takes the key and has the model shows with the first message.", at.BaseURL))
	case x.harness == "openai" && !slices.Contains(models, at.Model):
		return warning(fmt.Sprintf("The model at %s lists no %q; it has %s.", at.BaseURL, at.Model, models[0]), "Name one that it has as model in [agent], if messages fail.")
	}
	return ok(at.BaseURL + " answers, and takes the key.")
}
