// Package child runs another program for its owner: over stdin and stdout, in
// a process group of its own, without a shell.
//
// Guarantees: the program is dead when Wait returns, and so is everything in
// its group. When its owner is killed, the kernel kills the program too (on
// Linux), but not what the program had started itself. It gets its owner's
// environment without what holds secrets that are not its own (HUBBUB_*,
// TELEGRAM_*, what systemd gave to the owner, and what Options.Hide names). What
// it writes to stderr is logged line by line, cut at 2 KiB a line, and its last
// words are part of the error with which it ended.
package child
