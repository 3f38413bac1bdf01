package store

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"zombiezen.com/go/sqlite"
)

// Micros is a column for a time that is stored as microseconds since 1970. 0 is the zero time.
type Micros struct{ *time.Time }

// Scan implements sql.Scanner.
func (m Micros) Scan(value any) error {
	n, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a time in microseconds must be a number, not %v", value)
	}
	m.set(n)
	return nil
}

// Value implements driver.Valuer.
func (m Micros) Value() (driver.Value, error) { return m.micros(), nil }

func (m Micros) micros() int64 {
	if m.IsZero() {
		return 0
	}
	return m.UnixMicro()
}

func (m Micros) set(micros int64) {
	*m.Time = time.Time{}
	if micros != 0 {
		*m.Time = time.UnixMicro(micros).UTC()
	}
}

// JSON is a column for a value that is stored as JSON text. An empty text changes nothing. V is a
// pointer if it is scanned.
type JSON struct{ V any }

// Scan implements sql.Scanner.
func (c JSON) Scan(value any) error {
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("JSON must be a text, not %v", value)
	}
	return c.decode([]byte(text))
}

func (c JSON) decode(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, c.V)
}

// Value implements driver.Valuer.
func (c JSON) Value() (driver.Value, error) {
	raw, err := json.Marshal(c.V)
	return string(raw), err
}

// bind sets a parameter of a statement. Parameters are numbered from 1. A nil pointer or
// slice is NULL.
func bind(s *sqlite.Stmt, i int, value any) error {
	switch v := value.(type) {
	case nil:
		s.BindNull(i)
	case string:
		s.BindText(i, v)
	case int:
		s.BindInt64(i, int64(v))
	case int64:
		s.BindInt64(i, v)
	case bool:
		s.BindBool(i, v)
	case float64:
		s.BindFloat(i, v)
	case Micros:
		s.BindInt64(i, v.micros())
	case driver.Valuer:
		inner, err := v.Value()
		if err != nil {
			return err
		}
		return bind(s, i, inner)
	default:
		return bindKind(s, i, reflect.ValueOf(value))
	}
	return nil
}

// bindKind sets a parameter to a value of a named type.
func bindKind(s *sqlite.Stmt, i int, v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		s.BindText(i, v.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.BindInt64(i, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		s.BindInt64(i, int64(v.Uint())) //nolint:gosec // at most 32 bits, or a count
	case reflect.Bool:
		s.BindBool(i, v.Bool())
	case reflect.Float32, reflect.Float64:
		s.BindFloat(i, v.Float())
	case reflect.Pointer:
		if v.IsNil() {
			s.BindNull(i)
			return nil
		}
		return bind(s, i, v.Elem().Interface())
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			return fmt.Errorf("a %s cannot be stored", v.Type())
		}
		if v.IsNil() {
			s.BindNull(i)
			return nil
		}
		s.BindBytes(i, v.Bytes())
	default:
		return fmt.Errorf("a %s cannot be stored", v.Type())
	}
	return nil
}

// scan reads the current row of a statement into destinations.
func scan(s *sqlite.Stmt, into []any) error {
	if n := s.ColumnCount(); n != len(into) {
		return fmt.Errorf("the row has %d columns, not %d", n, len(into))
	}
	for i, d := range into {
		if err := scanColumn(s, i, d); err != nil {
			return fmt.Errorf("column %s: %w", s.ColumnName(i), err)
		}
	}
	return nil
}

func scanColumn(s *sqlite.Stmt, i int, into any) error {
	t := s.ColumnType(i)
	switch d := into.(type) {
	case Micros:
		if t == sqlite.TypeInteger { // as Scan, without its allocations
			d.set(s.ColumnInt64(i))
			return nil
		}
	case JSON:
		if t == sqlite.TypeText {
			return d.decode(bytesOf(s, i))
		}
	}
	switch d := into.(type) {
	case sql.Scanner:
		return d.Scan(valueOf(s, i))
	case *[]byte:
		*d = bytesOf(s, i)
		return nil
	case *any:
		*d = valueOf(s, i)
		return nil
	case *string:
		if t == sqlite.TypeText {
			*d = s.ColumnText(i)
			return nil
		}
	case *int64:
		if t == sqlite.TypeInteger {
			*d = s.ColumnInt64(i)
			return nil
		}
	case *int:
		if t == sqlite.TypeInteger {
			*d = int(s.ColumnInt64(i))
			return nil
		}
	case *bool:
		if t == sqlite.TypeInteger {
			*d = s.ColumnInt64(i) != 0
			return nil
		}
	}
	return scanKind(s, i, t, reflect.ValueOf(into).Elem())
}

// scanKind reads a column into a variable of a named type, or of a type other than the column's.
func scanKind(s *sqlite.Stmt, i int, t sqlite.ColumnType, d reflect.Value) error {
	switch kind := d.Kind(); {
	case kind == reflect.Pointer && t == sqlite.TypeNull:
		d.SetZero()
	case kind == reflect.Pointer:
		d.Set(reflect.New(d.Type().Elem()))
		return scanColumn(s, i, d.Interface())
	case kind == reflect.Slice && d.Type().Elem().Kind() == reflect.Uint8:
		d.SetBytes(bytesOf(s, i))
	case t == sqlite.TypeNull:
		return fmt.Errorf("NULL does not fit into a %s", d.Type())
	case kind == reflect.String:
		d.SetString(s.ColumnText(i))
	case d.CanInt() && t == sqlite.TypeInteger:
		d.SetInt(s.ColumnInt64(i))
	case d.CanUint() && t == sqlite.TypeInteger:
		d.SetUint(uint64(s.ColumnInt64(i))) //nolint:gosec // written by bind
	case d.CanFloat() && (t == sqlite.TypeFloat || t == sqlite.TypeInteger):
		d.SetFloat(s.ColumnFloat(i))
	case kind == reflect.Bool && t == sqlite.TypeInteger:
		d.SetBool(s.ColumnInt64(i) != 0)
	default:
		return fmt.Errorf("%q does not fit into a %s", s.ColumnText(i), d.Type())
	}
	return nil
}

// valueOf returns a column as an int64, float64, string, []byte or nil.
func valueOf(s *sqlite.Stmt, i int) any {
	switch s.ColumnType(i) {
	case sqlite.TypeInteger:
		return s.ColumnInt64(i)
	case sqlite.TypeFloat:
		return s.ColumnFloat(i)
	case sqlite.TypeText:
		return s.ColumnText(i)
	case sqlite.TypeBlob:
		return bytesOf(s, i)
	default:
		return nil
	}
}

// bytesOf returns a column as bytes, or nil for NULL.
func bytesOf(s *sqlite.Stmt, i int) []byte {
	if s.ColumnIsNull(i) {
		return nil
	}
	b := make([]byte, s.ColumnLen(i))
	s.ColumnBytes(i, b)
	return b
}
