// Package screen makes text fit for a terminal: foreign text without control
// characters, lines of a width, colours where they can be seen.
package screen
