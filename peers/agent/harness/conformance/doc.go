// Package conformance checks attention layers and C2A programs against the
// published vectors of package attention.
//
// Host runs the vectors against our own rules. Program runs them against any
// program that speaks C2A over stdio, in both drafts: it plays the host, the
// chat and its tools, delivers each vector whose event reaches a model, and
// judges what the program does.
//
// A program conforms if it accepts every delivery, keeps silent when the policy says so
// (also about events that only its tools could show it), discharges every must_respond
// with a message, a reaction, a deferral or a resolution, answers an event at most once
// however often it is delivered, names the event and an idempotency key in what it
// sends, and survives cancellations, refusals and unknown methods.
//
// Guarantees: cases are reported in order, each once; later cases run even if one
// fails; the program has ended when Program returns. Event ids are fresh in each run,
// so that a program with a memory can be checked again.
package conformance
