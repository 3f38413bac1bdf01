package program

import (
	"net/url"
	"slices"
	"strings"
)

// MaxName bounds the names of a bus and of its cluster, in bytes: both are part of NATS
// subjects, and the name of the bus is part of each row.
const MaxName = 256

// natsSchemes are the schemes that the NATS client speaks. The default is nats.
var natsSchemes = []string{"nats", "tls", "ws", "wss"}

// CheckCluster refuses servers of --cluster that the NATS client could never reach, and
// a --cluster-name that cannot be part of a subject.
func CheckCluster(servers []string, name string) error {
	for _, server := range servers {
		full := server
		if !strings.Contains(server, "://") {
			full = "nats://" + server
		}
		u, err := url.Parse(full)
		if err != nil || u.Hostname() == "" || !slices.Contains(natsSchemes, u.Scheme) {
			return Usage("--cluster is not the address of a NATS server such as nats://10.0.0.1:4222") // it may hold a password
		}
	}
	switch {
	case name != "" && (strings.ContainsAny(name, " \t\r\n*>") || slices.Contains(strings.Split(name, "."), "")):
		return Usage("--cluster-name %q cannot begin the names of NATS subjects: it may have no space, * or >, and no empty part between dots", name)
	case len(name) > MaxName:
		return Usage("--cluster-name is %d bytes long; at most %d are allowed", len(name), MaxName)
	}
	return nil
}
