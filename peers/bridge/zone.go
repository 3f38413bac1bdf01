package bridge

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the machine may lack time zone data
)

// Zones are the names of the time zones in which the people of chats live, by the ids of the chats.
type Zones map[string]string

// ParseZones parses time zones of chats, such as -100123=Europe/Berlin.
func ParseZones(list []string) (Zones, error) {
	zones := Zones{}
	for _, given := range list {
		at := strings.LastIndexByte(given, '=')
		chat, name := given[:max(at, 0)], given[at+1:]
		if _, err := time.LoadLocation(name); err != nil || chat == "" || name == "" || name == "Local" {
			return nil, fmt.Errorf("%q is not of the form CHAT=ZONE with a zone such as Europe/Berlin", given)
		}
		zones[chat] = name
	}
	return zones, nil
}
