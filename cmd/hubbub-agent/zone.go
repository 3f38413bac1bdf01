package main

import (
	"os"
	"strings"
	"time"
)

// zoneOf returns the time zone with a name, or that of the machine for "".
func zoneOf(name string) (*time.Location, error) {
	if name != "" {
		return time.LoadLocation(name)
	}
	name = os.Getenv("TZ")
	if name == "" { // time.Local has no name
		target, err := os.Readlink("/etc/localtime")
		if err == nil {
			_, name, _ = strings.Cut(target, "/zoneinfo/")
		}
	}
	if zone, err := time.LoadLocation(strings.TrimPrefix(name, ":")); err == nil && name != "" {
		return zone, nil
	}
	return time.Local, nil
}
