// Package conformance has the command conformance, which checks a bus, a broker, a harness or
// Chorus agents against the specification.
package conformance
