package proc

import (
	"slices"
	"strings"
)

// ServiceEnv are the variables that systemd gives to a service alone.
var ServiceEnv = []string{
	"NOTIFY_SOCKET", "WATCHDOG_*", "LISTEN_*", "CREDENTIALS_DIRECTORY", "INVOCATION_ID", "JOURNAL_STREAM",
	"SYSTEMD_EXEC_PID", "MAINPID", "MANAGERPID",
}

// DropEnv returns an environment without the named variables. A name that ends in *
// means all that begin so.
func DropEnv(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return matchesAny(kv, names) })
}

// KeepEnv returns the variables of an environment that are named, as for Without.
func KeepEnv(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return !matchesAny(kv, names) })
}

func matchesAny(kv string, names []string) bool {
	key, _, _ := strings.Cut(kv, "=")
	return slices.ContainsFunc(names, func(name string) bool {
		prefix, open := strings.CutSuffix(name, "*")
		return key == name || open && strings.HasPrefix(key, prefix)
	})
}
