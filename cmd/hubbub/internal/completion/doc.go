// Package completion completes the arguments and flags of commands in shells.
package completion
