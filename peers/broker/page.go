package broker

import (
	"encoding/json"
	"slices"
)

// What one page of a list holds at most, so that a result fits into a frame
// (1 MiB by default) with room to spare.
const (
	pageBytes    = 512 << 10
	defaultLimit = 200
	maxLimit     = 1000
)

// pageParams are the params of every list: the cursor that the former page gave
// as next, and how many items at most.
type pageParams struct {
	After string `json:"after"`
	Limit int    `json:"limit"`
}

func pageLimit(asked int) (int, error) {
	switch {
	case asked < 0:
		return 0, invalid("limit must not be negative")
	case asked == 0:
		return defaultLimit, nil
	}
	return min(asked, maxLimit), nil
}

// pageOf cuts one page from a list: {name: items, "next": cursor or null}. The
// cursor is the key of the page's last item.
func pageOf[T any](name string, list []T, key func(T) string, p pageParams) (any, error) {
	limit, err := pageLimit(p.Limit)
	if err != nil {
		return nil, err
	}
	if p.After != "" {
		i := slices.IndexFunc(list, func(item T) bool { return key(item) == p.After })
		if i < 0 {
			return nil, invalid("after %q is not in the list: use the next of the former page", clip(p.After, 80))
		}
		list = list[i+1:]
	}
	items := make([]json.RawMessage, 0, min(limit, len(list)))
	size := 0
	for _, item := range list {
		raw, err := encode(item)
		if err != nil {
			return nil, err
		}
		size += len(raw)
		if len(items) == limit || len(items) > 0 && size > pageBytes {
			break
		}
		items = append(items, raw)
	}
	var next any
	if n := len(items); n > 0 && n < len(list) {
		next = key(list[n-1])
	}
	return map[string]any{name: items, "next": next}, nil
}
