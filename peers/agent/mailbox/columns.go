package mailbox

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"time"
)

// A timeColumn stores a time as microseconds since 1970, the zero time as 0.
type timeColumn struct{ t *time.Time }

// Scan reads the column.
func (c timeColumn) Scan(value any) error {
	us, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a time is stored as %T", value)
	}
	*c.t = fromMicros(us)
	return nil
}

// Value writes the column.
func (c timeColumn) Value() (driver.Value, error) { return micros(*c.t), nil }

// A jsonColumn stores a value as JSON text.
type jsonColumn struct{ v any }

// Scan reads the column.
func (c jsonColumn) Scan(value any) error {
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("JSON is stored as %T", value)
	}
	return json.Unmarshal([]byte(text), c.v)
}

// Value writes the column.
func (c jsonColumn) Value() (driver.Value, error) {
	raw, err := json.Marshal(c.v)
	return string(raw), err
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
