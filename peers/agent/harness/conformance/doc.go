// Package conformance checks attention layers and C2A programs against the published vectors of
// package attention.
//
// Host runs the vectors against our own rules. Program runs them against any program that speaks
// C2A over stdio, in every draft. It acts as the host with a chat and its tools, delivers each
// vector whose event reaches a model, and checks what the program does.
//
// Observe is the other side: a program that any host can run, and that checks what the host sends.
//
// A program conforms if it
//
//   - accepts every delivery,
//   - stays silent when the policy says so, even about events that it saw only
//     through tools,
//   - discharges every must_respond event with a message, a reaction, a deferral
//     or a resolution,
//   - answers an event at most once, however often it is delivered,
//   - names the event and an idempotency key in what it sends, and
//   - survives cancellations, refusals and unknown methods.
//
// Guarantees: each case is reported once, in order. Later cases run even if one fails. The
// program has ended when Program returns. Event IDs are new in each run, so a program that
// remembers events can be checked again.
package conformance
