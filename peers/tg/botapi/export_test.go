package botapi

// NewTransport makes the transport of a client that is given none.
var NewTransport = newTransport
