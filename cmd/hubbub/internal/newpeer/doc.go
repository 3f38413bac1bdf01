// Package newpeer has the command new, which prints a peer to start from.
package newpeer
