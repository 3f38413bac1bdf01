//go:build !race

package activitylog

const raced = false
