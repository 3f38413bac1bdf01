package grant_test

import (
	"testing"

	"hubbub/bus/grant"
)

func TestBoundsOfAnIssuedCredentialLieWithinItsIssuers(t *testing.T) {
	usual := grant.Bounds{Sessions: 1000, Subscriptions: 1000, Messages: 1000, Bytes: 1000, LogBytes: 1000}
	issuer := grant.Bounds{Sessions: 5, Subscriptions: 5000, Messages: 5000, Bytes: 5, LogBytes: 5}.Or(usual)
	asked := grant.Bounds{Messages: 2000, Bytes: 7, LogBytes: 3}
	want := grant.Bounds{Sessions: 5, Messages: 2000, Bytes: 5, LogBytes: 3}
	if got := asked.Within(issuer, usual); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	c := grant.Credential{Name: "x", SHA256: grant.Hash("x"), Bounds: grant.Bounds{Bytes: -1}}
	if c.Check() == nil {
		t.Error("a bound below 1 is said to be right")
	}
}
