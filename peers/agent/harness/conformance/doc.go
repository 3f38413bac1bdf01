// Package conformance checks attention layers and C2A programs against the
// published vectors of package attention.
//
// Host runs the vectors against our own rules. Program runs them against any
// program that speaks C2A over stdio, in both drafts: it plays the host, the
// chat and its tools, delivers each vector whose event reaches a model, and
// looks at what the program does.
//
// A program conforms when it accepts every delivery, keeps silent where the
// policy says so (also where only its tools could show it an event), discharges
// every must_respond with a message, a reaction, a deferral or a resolution,
// says at most one thing to an event however often it is delivered, names the
// event and an idempotency key in what it sends, and outlives cancellations,
// refusals and methods that it does not know.
//
// Guarantees: cases are reported in order, each once; a case that fails does
// not keep later ones from running; the program has ended when Program returns.
// Event ids are fresh in each run, so that a program with a memory can be
// checked again.
package conformance
