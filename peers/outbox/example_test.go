package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
)

// Two letters to one destination: the first fails once and still arrives first.
func Example() {
	dir, err := os.MkdirTemp("", "outbox")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := store.Open(filepath.Join(dir, "peer.db"), outbox.Schema)
	if err != nil {
		panic(err)
	}
	defer db.Close()

	ctx, stop := context.WithCancel(context.Background())
	send := func(_ context.Context, item outbox.Item) error {
		if item.Key == "first" && item.Attempt == 1 {
			return outbox.Retry(1, errors.New("busy")) // after a nanosecond
		}
		fmt.Printf("attempt %d: %s\n", item.Attempt, item.Body)
		if item.Key == "second" {
			stop()
		}
		return nil
	}
	box := outbox.New(db, send, nil)
	for _, key := range []string{"first", "second", "second"} {
		fresh, err := box.Enqueue(ctx, "tg:42", key, []byte("the "+key+" letter"))
		fmt.Println(key, fresh, err)
	}
	if err := box.Run(ctx); err != nil {
		panic(err)
	}
	// Output:
	// first true <nil>
	// second true <nil>
	// second false <nil>
	// attempt 2: the first letter
	// attempt 1: the second letter
}
