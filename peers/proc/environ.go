package proc

import (
	"slices"
	"strings"
)

// CrashEnv is for the environment of our programs. If Go's runtime fails before main, the program
// then ends by a signal instead of with exit 2, which means wrong settings.
const CrashEnv = "GOTRACEBACK=crash"

// ServiceEnv lists the variables that systemd sets for one service only.
var ServiceEnv = []string{
	"NOTIFY_SOCKET", "WATCHDOG_*", "LISTEN_*", "CREDENTIALS_DIRECTORY", "INVOCATION_ID", "JOURNAL_STREAM",
	"SYSTEMD_EXEC_PID", "MAINPID", "MANAGERPID",
}

// ProgramEnv lists the variables of Hubbub's programs. They may hold secrets.
var ProgramEnv = []string{"HUBBUB_*", "TELEGRAM_*", "MATRIX_*"}

// DropEnv returns an environment without the named variables. A name that ends in * matches every
// variable with that prefix.
func DropEnv(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return matchesAny(kv, names) })
}

// KeepEnv returns the named variables of an environment. Names match as in DropEnv.
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
