// Package load runs whole-system workloads against a running bus and measures it, for `hubbub
// bench`.
//
// Every connection is real and uses the real protocol. A message counts when its sender has the
// bus's answer that every subscriber processed it. The driver shares its machine with the bus, so
// it is cheap: it batches frames and writes them just before it waits, compares bytes where that
// replaces parsing, and starts no goroutine per message.
//
// Two minimal servers serve as baselines, called floors, each in a process of its own.
// [ServeEcho] is a plain WebSocket echo, used for the same number of round trips over as many
// connections. [ServeTCP] repeats the pattern of the bus (message in, message out to each
// subscriber, answers in, answer out) over TCP with length prefixes. The ratio to a floor of the
// same run can be compared between machines, unlike absolute figures.
package load
