// Package bench has the command bench, which measures a running bus.
package bench
