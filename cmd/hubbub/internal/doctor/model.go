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
	h := model.APIs[x.harness].New(
		&model.Options{BaseURL: x.baseURL, Model: x.model, Key: func() (string, error) { return key, nil }},
	)
	at := h.Endpoint()
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Second, errors.New("no answer within 5s"))
	defer cancel()
	status, models, err := h.Models(ctx)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	switch {
	case err != nil:
		return problem(
			fmt.Sprintf("The model at %s cannot be reached: %s.", at.BaseURL, cmp.Or(context.Cause(ctx), err)),
			"Start it, or fix base-url in [agent]. Otherwise check the network, and the proxy in HTTPS_PROXY.",
		)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return problem(
			fmt.Sprintf("The model at %s rejects the key (%d).", at.BaseURL, status),
			"Put a valid key into "+at.KeyName+", and restart `hubbub up`.",
		)
	case status != http.StatusOK || len(models) == 0:
		return ok(fmt.Sprintf(
			"%s answers but lists no models. The first message will show whether it accepts the key and has the model.",
			at.BaseURL,
		))
	case x.harness == "openai" && !slices.Contains(models, at.Model):
		return warning(
			fmt.Sprintf("The endpoint %s does not list the model %q; it lists %s.", at.BaseURL, at.Model, models[0]),
			"If messages fail, set model in [agent] to one of its models.",
		)
	}
	return ok(at.BaseURL + " answers and accepts the key.")
}
