// Package rules has the rules of the broker: what a record, a claim, a delivery or an obligation
// may become, what a label means, and whom to wake. It has no clock, no store and no bus; a caller
// passes in the time and what is known. A rule that ends a method does so with Fail, and Attempt
// returns that refusal.
package rules
