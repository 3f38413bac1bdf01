package modelapi

// NewClient makes the client of an endpoint that is given none.
var NewClient = newClient
