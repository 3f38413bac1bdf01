package cmd_test

import (
	"context"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"hubbub/bus/bustest"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
)

// withBearer is a transport that adds a token to each request.
type withBearer string

func (b withBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// TestA2ATask_SurvivesGatewayRestart checks an agent behind A2A that asks before it deploys. The
// sender of the task decides. The agent deploys once and says so once, although the gateway is
// killed while the task asks and again while it continues, over JSON-RPC and over HTTP+JSON.
func TestA2ATask_SurvivesGatewayRestart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	d := &deployModel{ran: map[string]int{}}
	s := newFixture(t, d.serve(t)...)
	s.start("broker")
	gateway := bustest.FreeAddress(t)
	env := []string{"HUBBUB_DATA=" + s.data, "HUBBUB_BUS=ws://" + s.bus, "HUBBUB_LOG_FORMAT=json"}
	begin := func() *process { return start(t, t, "hubbub-chorus", env, "--listen", gateway) }
	chorus := begin()
	restart := func() {
		chorus.kill()
		chorus = begin()
	}
	out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), "chorus", "inbox", "create", "ops", "--data", s.data).Output()
	_, secret, ok := strings.Cut(strings.TrimSpace(string(out)), "/inbox/")
	if err != nil || !ok {
		t.Fatalf("%s, %v", out, err)
	}
	caller := &http.Client{Transport: withBearer(secret)}
	for site, binding := range map[string]struct {
		path     string
		protocol sdk.TransportProtocol
		caller   a2aclient.FactoryOption
	}{
		"rpc":  {"/a2a", sdk.TransportProtocolJSONRPC, a2aclient.WithJSONRPCTransport(caller)},
		"rest": {"/a2a/rest", sdk.TransportProtocolHTTPJSON, a2aclient.WithRESTTransport(caller)},
	} {
		client, err := a2aclient.NewFromEndpoints(t.Context(), []*sdk.AgentInterface{sdk.NewAgentInterface("http://"+gateway+binding.path, binding.protocol)}, binding.caller)
		if err != nil {
			t.Fatal(err)
		}
		checkSurvives(t, client, site, restart)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ran["rpc"] != 1 || d.ran["rest"] != 1 {
		t.Errorf("it ran %v", d.ran)
	}
	if kept := s.decisions(); len(kept) != 2 || kept[0].By != "chorus:a2a:ops" || kept[1].By != "chorus:a2a:ops" {
		t.Errorf("decisions %+v", kept)
	}
}

// checkSurvives sends a task that asks, decides, and kills the gateway in between.
func checkSurvives(t *testing.T, client *a2aclient.Client, site string, restart func()) {
	t.Helper()
	send := func(m *sdk.Message, at bool) *sdk.Task {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience+patience)
		defer cancel()
		result, err := client.SendMessage(ctx, &sdk.SendMessageRequest{Message: m, Config: &sdk.SendMessageConfig{ReturnImmediately: at}})
		task, _ := result.(*sdk.Task)
		if err != nil || task == nil {
			t.Fatalf("%+v, %v", result, err)
		}
		return task
	}
	deploy := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("deploy ["+site+"]"))
	asks := send(deploy, false)
	if asks.Status.State != sdk.TaskStateInputRequired || !strings.Contains(asks.Status.Message.Parts[0].Text(), "asks to run mcp:ops.deploy") {
		t.Fatalf("a task that asks is %+v", asks)
	}
	restart()
	if same := send(deploy, true); same.ID != asks.ID || same.Status.State != sdk.TaskStateInputRequired {
		t.Fatalf("after the gateway was killed the task is %+v", same)
	}
	yes := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("yes"))
	yes.TaskID = asks.ID
	send(yes, true)
	restart()
	done := send(yes, false)
	if done.ID != asks.ID || done.Status.State != sdk.TaskStateCompleted || len(done.Artifacts) != 1 || !strings.Contains(done.Artifacts[0].Parts[0].Text(), "deployed "+site) {
		t.Errorf("after yes: %+v", done)
	}
}
