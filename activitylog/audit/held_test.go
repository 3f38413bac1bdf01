package audit

import (
	"testing"

	"hubbub/activitylog/internal/merkle"
)

// TestAddHeld_SortsTheLogsOwn checks that kept checkpoints are sorted, because they are compared
// with the tree as it grows.
func TestAddHeld_SortsTheLogsOwn(t *testing.T) {
	a := &treeVerifier{audit: &Audit{Origin: "o"}}
	var list []heldCheckpoint
	for _, c := range []merkle.Checkpoint{
		{Origin: "o", Size: 8}, {Origin: "o", Size: 0}, {Origin: "other", Size: 5}, {Origin: "o", Size: 3}, {Origin: "o", Size: 6},
	} {
		list = append(list, heldCheckpoint{Checkpoint: c})
	}
	a.addHeld(list, "")
	if len(a.held) != 3 || a.held[0].Size != 3 || a.held[1].Size != 6 || a.held[2].Size != 8 {
		t.Errorf("held are %+v", a.held)
	}
}
