package transcript_test

import (
	"context"
	"errors"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/protocol"
	"hubbub/protocol/transcript"
	"hubbub/protocol/wire"
)

// TestTranscripts runs every wire case against our bus, over a real WebSocket
// and in memory.
func TestTranscripts(t *testing.T) {
	cases, err := transcript.Load(protocol.Transcripts)
	if err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Run("websocket", func(t *testing.T) {
				b := bustest.Start(t, nil)
				if err := c.Run(t.Context(), transcript.WebSocket(b.URL(), "")); err != nil {
					t.Error(err)
				}
			})
			t.Run("own identities", func(t *testing.T) {
				own := c.WithPrefix("own-")
				b := bustest.StartInMemory(t, nil)
				err := own.Run(t.Context(), func(ctx context.Context) (transcript.Conn, error) {
					s, err := b.Dial(ctx)
					if err != nil {
						return nil, err
					}
					return transcript.OverStream(s, nil, wire.CloseCode), nil
				})
				if err != nil && !errors.Is(err, transcript.ErrSkipped) {
					t.Error(err)
				}
			})
			t.Run("memory", func(t *testing.T) {
				b := bustest.StartInMemory(t, nil)
				err := c.Run(t.Context(), func(ctx context.Context) (transcript.Conn, error) {
					s, err := b.Dial(ctx)
					if err != nil {
						return nil, err
					}
					return transcript.OverStream(s, nil, wire.CloseCode), nil
				})
				if errors.Is(err, transcript.ErrSkipped) {
					t.Skip(err)
				}
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestInterference checks which cases can run beside the peers of others.
func TestInterference(t *testing.T) {
	cases, err := transcript.Load(protocol.Transcripts)
	if err != nil {
		t.Fatal(err)
	}
	disturb := map[string]string{}
	for _, c := range cases {
		own := c.WithPrefix("own-")
		if why := own.Interference(); why != "" {
			disturb[c.Name] = why
		}
	}
	if len(disturb) > len(cases)/3 {
		t.Errorf("too many of %d cases disturb others: %v", len(cases), disturb)
	}
	for name, why := range map[string]string{
		"roles": "it would take over agent:system", "patterns": "it would receive the messages of others", "takeover": "", "observe": "", "send": "",
	} {
		if disturb[name] != why {
			t.Errorf("%s: %q; want %q", name, disturb[name], why)
		}
	}
	t.Log(disturb)
}
