// Package provision creates the credentials and token files of the programs of a system.
package provision
