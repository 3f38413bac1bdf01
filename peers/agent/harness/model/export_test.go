package model

// NewClient makes the client of a harness that is given none.
var NewClient = newClient
