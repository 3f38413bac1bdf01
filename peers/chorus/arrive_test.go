package chorus_test

import (
	"net/http"
	"path/filepath"
	"testing"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// TestHook_PostEndsAWait checks that a signed post to a hook of the broker resumes the work that
// waits for what the post names, or for the name of the hook.
func TestHook_PostEndsAWait(t *testing.T) {
	r := startNew(t, nil)
	startBroker(t, r.bus, filepath.Join(t.TempDir(), "broker.db"))
	will := askAs(t, r.bus, "cli:will")
	for _, id := range []string{"build-42", "nightly"} {
		_, err := collab.WorkCreate.Ask(t.Context(), will, collab.WorkParams{
			ID: new("w-" + id), Title: new("ship it"), OwnerID: new("cli:will"), NextMoveOwnerID: new("cli:will"),
			State: collab.WorkWaiting, WaitingOn: &collab.WaitingOn{Kind: "artifact", Label: "the build", TargetID: id},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	url, secret := r.hook("nightly", protocol.PeerBroker, false)
	const wrong = `{"arrived":"build-42\ud800"}`
	if status, answer := post(t, url, wrong, github(secret, wrong)...); status != http.StatusBadRequest {
		t.Errorf("a name that is not text: %d %s", status, answer)
	}
	for want, body := range map[string]string{"build-42": `{"arrived":"build-42"}`, "nightly": `{"zen":"Approachable is better than simple."}`} {
		if status, answer := post(t, url, body, github(secret, body)...); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		waitFor(t, func() bool {
			got, err := collab.WorkGet.Ask(t.Context(), will, collab.IDParams{ID: "w-" + want})
			if err != nil {
				t.Fatal(err)
			}
			return got.WorkItem.State == collab.WorkWorking
		})
	}
}
