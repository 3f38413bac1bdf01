//go:build !race

package logtest

// Raced reports whether the race detector is on.
const Raced = false
