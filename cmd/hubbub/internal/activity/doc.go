// Package activity has the commands that read the activity log: tail, trace, why, stats and log.
package activity
