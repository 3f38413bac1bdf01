// Package operate has the commands for the data folder of a system: token, pair, outbox and backup.
package operate
