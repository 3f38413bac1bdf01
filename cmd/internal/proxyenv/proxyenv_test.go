package proxyenv_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	_ "hubbub/cmd/internal/proxyenv"

	_ "github.com/modelcontextprotocol/go-sdk/oauthex" // reads the variables while it is initialized
)

const childEnv = "PROXYENV_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	for _, target := range []string{"http://a.example/", "https://a.example/"} {
		r, err := http.NewRequest(http.MethodGet, target, nil) //nolint:noctx // it is not sent
		if err == nil {
			r.URL, err = http.ProxyFromEnvironment(r)
		}
		fmt.Println(r.URL, err)
	}
}

// TestAllProxy_IsSetBeforeAnybodyReadsIt starts this test as a program with the variable.
func TestAllProxy_IsSetBeforeAnybodyReadsIt(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = []string{childEnv + "=1", "all_proxy=http://p.example:1", "HTTPS_PROXY=http://q.example:2"}
	out, err := cmd.CombinedOutput()
	if want := "http://p.example:1 <nil>\nhttp://q.example:2 <nil>"; err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("%v: the proxies are\n%s\nwant\n%s", err, out, want)
	}
}
