// Package subprocess runs the program of a harness and talks to it over stdin and stdout. It
// builds on package proc. A Supervisor restarts the program whenever it ends.
//
// Guarantees: when Wait returns, the program and everything in its process group are dead. If the
// owner is killed, Linux also kills the program, but not the processes that the program itself
// started. The program inherits its owner's environment without the owner's secrets: HUBBUB_*,
// TELEGRAM_*, MATRIX_*, what systemd passed to the owner, and the variables of Options.HideEnv. Its stderr
// is logged line by line, at most 2 KiB each. The error with which it ended quotes the last
// lines.
package subprocess
