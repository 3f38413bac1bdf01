// Package systemtest plays the counterparts of a spawner, for tests with real processes
// and units: the agent that a test program becomes when a launcher starts it, and the
// bridge that asks for an agent.
//
// It keeps no state, and starts only what its functions say.
package systemtest
