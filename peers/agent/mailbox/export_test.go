package mailbox

// Steps returns the migrations in order.
func Steps() []string { return steps }

// Transitions is the table of what may follow what.
var Transitions = transitions
