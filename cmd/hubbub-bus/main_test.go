package main

import (
	"context"
	"os"
	"testing"

	"hubbub/cmd/internal/program"
)

// TestServe_OpensNoLogForAStop stops the bus while a slow disk still makes the data folder.
func TestServe_OpensNoLogForAStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	data := t.TempDir()
	if err := (&settings{}).serve(ctx, &program.Env{}, data, &joined{}); err != nil {
		t.Error(err)
	}
	if files, err := os.ReadDir(data); err != nil || len(files) != 0 {
		t.Errorf("the folder has %v, %v", files, err)
	}
}
