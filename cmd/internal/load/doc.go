// Package load drives a running bus with whole-system workloads and measures
// it, for `hubbub bench`.
//
// Every connection is a real one and speaks the real protocol. A message counts
// once its sender has the bus's answer and that answer says that every
// subscriber processed it. The driver shares its machine with the bus, so it is
// kept cheap: frames are gathered and leave just before a wait, nothing is
// parsed that a comparison of bytes decides, and no goroutine belongs to a
// message.
//
// Beside the bus stand two floors, servers that do as little as can be done, in
// processes of their own: [ServeEcho], the same number of WebSocket round trips
// over as many connections through a plain echo, and [ServeTCP], the pattern of
// the bus (message in, message out to each subscriber, answers in, answer out)
// over bare TCP with length prefixes. A ratio to a floor of the same run is
// meaningful on a machine whose absolute figures are not.
package load
