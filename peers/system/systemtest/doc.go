// Package systemtest has the other parties of a spawner, for tests with real
// processes and units: the agent that a test program becomes where a launcher
// starts it, and the bridge that asks for one.
//
// It keeps nothing, and starts nothing but what its functions say.
package systemtest
