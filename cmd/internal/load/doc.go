// Package load drives a running bus with whole-system workloads and measures
// it, for `hubbub bench`.
//
// Every connection speaks the real protocol over a real WebSocket. A workload
// counts a message once its sender has the bus's answer. The floor is the same
// number of WebSocket round trips through a plain echo server (Echo), in a
// process of its own, with the same transport; so a ratio of the two is
// meaningful on a machine whose absolute figures are not.
package load
