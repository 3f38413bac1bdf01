package outbox_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/outbox"
)

func TestOperatorsSeeRetryAndDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "peer.db")
		var mu sync.Mutex
		broken, sent := true, ""
		box := outbox.New(openDB(t, path), func(_ context.Context, it outbox.Item) error {
			mu.Lock()
			defer mu.Unlock()
			if broken {
				return outbox.Permanent(errors.New("bot was blocked"))
			}
			sent += it.Key
			return nil
		}, nil)
		enqueue(t, box, "tg:1", "a", "b", "c")
		run(t, box)
		time.Sleep(time.Second)
		operator := outbox.New(openDB(t, path), nil, nil) // another process, which sends nothing
		dead, err := operator.Dead(t.Context())
		if err != nil || len(dead) != 3 || dead[0].Error != "bot was blocked" || string(dead[0].Body) != "a" {
			t.Fatalf("%+v, %v", dead, err)
		}
		mu.Lock()
		broken = false
		mu.Unlock()
		for _, id := range []int64{dead[1].ID, dead[0].ID} {
			if err := operator.Retry(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if err := operator.Drop(t.Context(), dead[2].ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second) // the running outbox polls every 5 s
		mu.Lock()
		if sent != "ab" {
			t.Errorf("sent %q; want both in their old order", sent)
		}
		mu.Unlock()
		if err := operator.Retry(t.Context(), dead[0].ID); !errors.Is(err, outbox.ErrSettled) {
			t.Error("retrying a sent item:", err)
		}
		if err := operator.Drop(t.Context(), dead[0].ID); !errors.Is(err, outbox.ErrSettled) {
			t.Error("dropping a sent item:", err)
		}
		if err := operator.Drop(t.Context(), 99); !errors.Is(err, outbox.ErrNotFound) || !strings.Contains(err.Error(), "99") {
			t.Error("dropping nothing:", err)
		}
		if err := operator.Drop(t.Context(), dead[2].ID); err != nil {
			t.Error("dropping twice:", err)
		}
		counts, err := operator.Count(t.Context())
		if err != nil || counts[outbox.StateSent] != 2 || counts[outbox.StateDropped] != 1 {
			t.Error(counts, err)
		}
	})
}

func TestAnItemInFlightIsNotTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := outbox.New(freshDB(t), func(context.Context, outbox.Item) error { time.Sleep(time.Minute); return nil }, nil)
		enqueue(t, box, "tg:1", "a")
		run(t, box)
		time.Sleep(time.Second)
		id := only(t, box).ID
		if err := box.Drop(t.Context(), id); !errors.Is(err, outbox.ErrBusy) {
			t.Error("drop:", err)
		}
		if err := box.Retry(t.Context(), id); !errors.Is(err, outbox.ErrBusy) {
			t.Error("retry:", err)
		}
	})
}

func TestPruneForgetsSettledKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := outbox.New(freshDB(t), func(_ context.Context, it outbox.Item) error {
			if it.Key == "dead" {
				return outbox.Permanent(errors.New("no"))
			}
			return nil
		}, &outbox.Options{Poll: 12 * time.Hour})
		enqueue(t, box, "tg:1", "sent", "dead")
		run(t, box)
		time.Sleep(6 * 24 * time.Hour)
		if fresh, err := box.Enqueue(t.Context(), "tg:1", "sent", nil); fresh || err != nil {
			t.Error("within its retention a key is known:", fresh, err)
		}
		time.Sleep(2 * 24 * time.Hour)
		items, err := box.List(t.Context(), nil)
		if err != nil || len(items) != 1 || items[0].Key != "dead" {
			t.Errorf("%+v, %v; want the dead letter alone", items, err)
		}
		enqueue(t, box, "tg:1", "sent")
		time.Sleep(23 * 24 * time.Hour)
		if items, err = box.List(t.Context(), nil); err != nil || len(items) != 0 {
			t.Errorf("%+v, %v; want nothing", items, err)
		}
	})
}
