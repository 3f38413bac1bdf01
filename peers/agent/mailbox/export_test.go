package mailbox

// Transitions is the table of transitions between states.
var Transitions = transitions
