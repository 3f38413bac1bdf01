// Package logtest makes the rows of activity logs for tests, and reads logs as other programs do.
package logtest
