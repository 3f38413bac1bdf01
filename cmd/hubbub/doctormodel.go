package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"hubbub/peers/agent/harness/model"
	"hubbub/peers/tg"
)

// modelAPIs are the harnesses that ask a model, and how a request shows the key.
var modelAPIs = map[string]struct {
	model.Endpoint
	header, scheme string
}{
	"openai":    {model.OpenAIEndpoint, "Authorization", "Bearer "},
	"anthropic": {model.AnthropicEndpoint, "X-Api-Key", ""},
}

// maxModels bounds what is read of a list of models, in bytes.
const maxModels = 4 << 20

// askModel asks the endpoint of the agents' model for its list of models, which costs nothing:
// whether it is there, takes the key, and has the model.
func (x *examination) askModel(ctx context.Context, key string) tg.Finding {
	api := modelAPIs[x.harness]
	base, asked := strings.TrimRight(cmp.Or(x.baseURL, api.BaseURL), "/"), cmp.Or(x.model, api.Model)
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Second, errors.New("no answer within 5s"))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/models", nil)
	if err != nil {
		return problem("The model's address is none: "+err.Error()+".", "Mend base-url in [agent].")
	}
	if key != "" {
		req.Header.Set(api.header, api.scheme+key)
	}
	req.Header.Set("Anthropic-Version", "2023-06-01") // others do not mind
	resp, err := http.DefaultClient.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if err != nil {
		return problem(fmt.Sprintf("The model at %s is not reached: %s.", base, cmp.Or(context.Cause(ctx), err)), "Start it, or mend base-url in [agent]; else look at the network, and a proxy in HTTPS_PROXY.")
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	var list struct{ Data []struct{ ID string } }
	unread := json.NewDecoder(io.LimitReader(resp.Body, maxModels)).Decode(&list)
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return problem(fmt.Sprintf("The model at %s refuses the key (%d).", base, code), "Put a good one into "+api.KeyName+" and start `hubbub up` again.")
	case code != http.StatusOK || unread != nil || len(list.Data) == 0:
		return fine(fmt.Sprintf("%s is there. It lists no models, so whether it takes the key and has the model shows with the first message.", base))
	case x.harness == "openai" && !slices.ContainsFunc(list.Data, func(m struct{ ID string }) bool { return m.ID == asked }):
		return warning(fmt.Sprintf("The model at %s lists no %q; it has %s.", base, asked, list.Data[0].ID), "Name one that it has as model in [agent], if messages fail.")
	}
	return fine(base + " answers, and takes the key.")
}
