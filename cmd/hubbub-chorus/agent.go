package main

import (
	"context"

	"hubbub/peers/agent/external"
	"hubbub/peers/chorus"
)

// openAgent opens what runs an agent elsewhere: an agent like any other, whose
// harness POSTs through the gateway.
func openAgent(ctx context.Context, s *chorus.AgentSpec) (chorus.Agent, error) {
	return external.Open(ctx, &external.Spec{
		Name: string(s.Name), Folder: s.Folder, Legacy: s.Legacy, Roles: s.Settings.Roles, Streams: s.Settings.Streams, Knocks: s.Settings.Knocks,
		Post: s.Post, Peer: s.Peer, ComposeWindow: s.ComposeWindow, ComposeCap: s.ComposeCap, Deadline: s.Deadline,
		Version: s.Version, Log: s.Log,
	})
}
