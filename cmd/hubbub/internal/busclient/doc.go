// Package busclient connects a command to a bus. It does not reconnect: if no bus answers, the command
// reports that and ends.
package busclient
