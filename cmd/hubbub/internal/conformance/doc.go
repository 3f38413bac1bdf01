// Package conformance has the command conformance, which checks a bus, a broker or a harness against the
// specification.
package conformance
