// Package up has the commands up and config: it plans which programs run with which settings, checks the
// settings and runs the programs.
package up
