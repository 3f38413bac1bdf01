// Package output prints the results of commands: as text for people, or as JSON with --json.
package output
