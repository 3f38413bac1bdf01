package bridge_test

import (
	"testing"

	"hubbub/peers/bridge"
)

func TestParseZones_RefusesInvalidZone(t *testing.T) {
	zones, err := bridge.ParseZones([]string{"-1001=Europe/Berlin", "!a=b:example.org=Asia/Tokyo", "42=UTC"})
	if err != nil || len(zones) != 3 || zones["!a=b:example.org"] != "Asia/Tokyo" || zones["-1001"] != "Europe/Berlin" {
		t.Errorf("%v, %v", zones, err)
	}
	for _, given := range []string{"", "Europe/Berlin", "=Europe/Berlin", "42=", "42=Mars/Olympus", "42=Local", "42=+01:00"} {
		if zones, err := bridge.ParseZones([]string{given}); err == nil {
			t.Errorf("%q gives %v", given, zones)
		}
	}
}
