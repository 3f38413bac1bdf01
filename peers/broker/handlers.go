package broker

// The handlers group the methods of the broker. Each works on the transaction of the request.
type (
	identityHandler     struct{ *tx } // endpoints and what they announce
	conversationHandler struct{ *tx } // conversations, their messages, and the bindings of chats
	recordHandler       struct{ *tx } // work items and questions
	flightHandler       struct{ *tx } // invocations and their flights
	deliveryHandler     struct{ *tx }
	claimHandler        struct{ *tx }
	decisionHandler     struct{ *tx } // decisions of people about tools
	obligationHandler   struct{ *tx }
	wakeHandler         struct{ *tx } // wake decisions and wakes
	queryHandler        struct{ *tx } // the log and the prompt contract
	reminderHandler     struct{ *tx } // of stale work
)

// A handler is a group of methods.
type handler interface{ ~struct{ *tx } }
