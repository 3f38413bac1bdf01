package system

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
)

// A credentialFixture is a spawner that does not run, and the HTTP side of a bus that grants it
// everything.
type credentialFixture struct {
	*supervisor              // of agent:a
	token       string       // of the spawner
	path        string       // of the agent's token
	whoami      atomic.Int32 // status with which the bus answers about a credential
}

func newCredentialFixture(t *testing.T) *credentialFixture {
	t.Helper()
	f := &credentialFixture{token: "own", path: filepath.Join(t.TempDir(), "a.token")}
	f.whoami.Store(http.StatusOK)
	var issued atomic.Int32
	bus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "GET /whoami":
			w.WriteHeader(int(f.whoami.Load()))
			fmt.Fprint(w, `{"publish":["*"]}`)
		case "POST /credentials":
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"token":"issued-%d"}`, issued.Add(1))
		default:
			t.Errorf("the bus received %s %s", r.Method, r.URL)
		}
	}))
	t.Cleanup(bus.Close)
	db := storetest.Open(t, "system", filepath.Join(t.TempDir(), "system.db"), Open)
	t.Cleanup(func() { db.Close() })
	s := New(db, nil, "", filepath.Dir(f.path), &Options{Peer: &peer.Options{
		Buses:     []string{strings.Replace(bus.URL, "http", "ws", 1)},
		TokenFunc: func() (string, error) { return f.token, nil },
	}})
	f.supervisor = newSupervisor(s, "a", false)
	return f
}

// ensure returns the agent's token for a start.
func (f *credentialFixture) ensure(t *testing.T) string {
	t.Helper()
	if err := f.ensureToken(t.Context(), f.name, f.path); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(token))
}

// TestEnsureToken_IssuesOnceTheSpawnerHasAToken gives the spawner a token after it has started an
// agent. It is the case of a spawner that starts before its token is provisioned.
func TestEnsureToken_IssuesOnceTheSpawnerHasAToken(t *testing.T) {
	f := newCredentialFixture(t)
	f.token = ""
	random := f.ensure(t)
	if random == "" || strings.HasPrefix(random, "issued") || f.ensure(t) != random || f.mustRestart(t.Context()) {
		t.Errorf("without a token of the spawner, the agent's is %q", random)
	}
	f.token = "late"
	if got := f.ensure(t); got != "issued-1" {
		t.Errorf("with a token of the spawner, the agent's is %q", got)
	}
	if got := f.ensure(t); got != "issued-1" || f.mustRestart(t.Context()) {
		t.Errorf("the agent's token was replaced by %q", got)
	}
}

// TestLearnPeople_KeepsOnlyTheAnswerOfABus checks that an answer without the grants of the spawner
// is not taken for one that grants nothing.
func TestLearnPeople_KeepsOnlyTheAnswerOfABus(t *testing.T) {
	f := newCredentialFixture(t)
	for _, status := range []int32{http.StatusBadGateway, http.StatusNotFound, http.StatusUnauthorized} {
		f.whoami.Store(status)
		if err := f.learnPeople(t.Context()); err == nil || f.people.Load() != nil {
			t.Errorf("status %d is an answer: %v", status, err)
		}
	}
	f.whoami.Store(http.StatusOK)
	if err := f.learnPeople(t.Context()); err != nil || !*f.people.Load() {
		t.Errorf("the spawner does not reach people: %v", err)
	}
}

// TestMustRestart_LearnsWhatTheSpawnerMayGrant asks about an agent that a restarted spawner has
// adopted, before it has started any.
func TestMustRestart_LearnsWhatTheSpawnerMayGrant(t *testing.T) {
	f := newCredentialFixture(t)
	f.ensure(t)
	f.people.Store(nil)
	if f.mustRestart(t.Context()) {
		t.Error("an agent with the right credential must restart")
	}
	err := store.InTx(t.Context(), f.db, func(tx *store.Tx) {
		tx.Exec(toWanted, f.name, "", "", 1)
		assign(tx, f.name, "tg:7", true)
	})
	if err != nil {
		t.Fatal(err)
	}
	f.people.Store(nil)
	if !f.mustRestart(t.Context()) {
		t.Error("an agent with another chat need not restart")
	}
}
