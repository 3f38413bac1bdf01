// Package systemtest has the counterparts of a spawner for tests with real processes and units:
// the agent that a test program becomes when a launcher starts it, and the bridge that requests
// an agent.
package systemtest
