// Package logs opens the activity logs that a command reads, and has the flags that select logs and rows.
package logs
