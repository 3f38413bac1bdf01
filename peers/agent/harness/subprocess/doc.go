// Package child runs the program of a harness: peers/proc with a conversation over
// stdin and stdout, and a Life that starts the program again.
//
// Guarantees: when Wait returns, the program is dead, and so is everything in its
// group. If its owner is killed, Linux kills the program too, but not what the
// program had started itself. The program gets its owner's environment without the
// owner's secrets (HUBBUB_*, TELEGRAM_*, what systemd gave to the owner, and what
// Options.Hide names). Its stderr is logged by line, at most 2 KiB of each, and the
// last line is part of the error with which the program ended.
package subprocess
