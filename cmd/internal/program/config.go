package program

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"hubbub/protocol/text"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"
)

// topKeys are the keys that each table of a file inherits from its top, unless the
// table sets them.
var topKeys = []string{"log-level", "log-format"}

// ReadTOML reads a settings file. A path of the form file#table means one table of it, with the
// topKeys from the top of the file. A missing table is empty. The error says what is wrong with
// the file, and where (see Usage).
func ReadTOML(path string) (map[string]any, error) {
	name, table := path, ""
	if _, err := os.Stat(path); err != nil {
		if i := strings.LastIndexByte(path, '#'); i >= 0 {
			name, table = path[:i], path[i+1:]
		}
	}
	var file map[string]any
	raw, err := os.ReadFile(name)
	if err == nil {
		content, ok := text.Decode(raw)
		if !ok {
			return nil, Usage("%s is not text: save it as UTF-8", name)
		}
		_, err = toml.Decode(content, &file)
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			missing := fmt.Errorf("there is no file %s; --config must name an existing one", name)
			return nil, Usage("%w", Retryable(missing)) // it may be on a disk that is not there yet
		}
		if parse, ok := errors.AsType[toml.ParseError](err); ok {
			return nil, Usage("reading %s: line %d: %s", name, parse.Position.Line, parse.Message)
		}
		return nil, Usage("reading %s: %w", name, err)
	}
	if table == "" {
		return file, nil
	}
	part, ok := file[table].(map[string]any)
	if !ok && file[table] != nil {
		return nil, Usage("%s: %s must be a table, written [%s]", name, table, table)
	}
	settings := map[string]any{}
	for _, key := range topKeys {
		if file[key] != nil {
			settings[key] = file[key]
		}
	}
	maps.Copy(settings, part)
	return settings, nil
}

// BusAddress returns the address at which programs of this machine reach the bus of a [bus] table.
// variable returns the value of an environment variable, or "". Variables win over the table, as in
// the bus.
func BusAddress(bus map[string]any, variable func(name string) string) (string, error) {
	setting := func(key string) (name, value string, ok bool) {
		if v := variable(EnvName(key)); v != "" {
			return EnvName(key), v, true
		}
		value, ok = TOMLText(bus[key])
		return "[bus] " + key, value, ok
	}
	name, listen, ok := setting("listen")
	if !ok {
		listen = "127.0.0.1:7892"
	}
	host, port, err := net.SplitHostPort(listen)
	number := 0
	if err == nil {
		number, err = net.LookupPort("tcp", port) // it may be a name
	}
	if err != nil {
		return "", Usage("%s = %q is not an address such as 127.0.0.1:7892", name, listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	u := url.URL{Scheme: "ws", Host: net.JoinHostPort(host, strconv.Itoa(number))}
	if _, certificate, _ := setting("tls-cert"); certificate != "" {
		u.Scheme = "wss"
	}
	return u.String(), nil
}

// busOf returns the address of the bus in the file of `hubbub up`, or "" if the file has none.
func busOf(path string, lookupEnv func(string) (string, bool)) (string, error) {
	file, err := ReadTOML(path)
	if err != nil {
		return "", err
	}
	bus, ok := file["bus"].(map[string]any)
	if !ok {
		return "", nil
	}
	return BusAddress(bus, func(name string) string {
		value, _ := lookupEnv(name)
		return value
	})
}

// fromFile sets every unset flag from a TOML file whose keys are flag names. It refuses other
// keys unless other reports that they are known.
func fromFile(flags *pflag.FlagSet, path string, other func(key string) bool) error {
	file, err := ReadTOML(path)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(file)) {
		f := flags.Lookup(key)
		_, table := file[key].(map[string]any)
		if f == nil || table || notSettings[key] || key == "config" {
			if other != nil && other(key) {
				continue
			}
			return Usage("%s: unknown key %q; keys are the names of the flags, see --help", path, key)
		}
		values, err := TOMLStrings(file[key])
		if err == nil && !f.Changed {
			err = setFlag(f, values)
		}
		if err != nil {
			return Usage("%s: %s: %s", path, key, err)
		}
	}
	return nil
}

// readOwnFile reads the file of --config for a command that interprets it. It sets only --data,
// because root runs the command as the owner of that folder.
func (c *settings) readOwnFile(flags *pflag.FlagSet) (err error) {
	if c.file, err = ReadTOML(c.config); err != nil {
		return err
	}
	value, ok := c.file["data"]
	f := flags.Lookup("data")
	if !ok || f.Changed {
		return nil
	}
	data, ok := value.(string)
	if !ok || data == "" {
		return Usage("%s: data must name a folder", c.config)
	}
	return setFlag(f, []string{data})
}

// ReadConfig returns the content of the file of --config. See ReadTOML.
func (e *Env) ReadConfig() (map[string]any, error) {
	if e.settings.file != nil {
		return e.settings.file, nil // a pipe can be read only once
	}
	return ReadTOML(e.Config)
}

// TOMLText returns the value of a key with a single value, and whether the file has it.
func TOMLText(value any) (text string, ok bool) {
	list, err := TOMLStrings(value)
	if err != nil || len(list) != 1 {
		return "", false
	}
	return list[0], true
}

// TOMLStrings returns a value of a settings file as it would be written after a flag. A list has
// one element for each member.
func TOMLStrings(value any) ([]string, error) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	out := make([]string, 0, len(list))
	for _, v := range list {
		switch v.(type) {
		case string, bool, int64, float64:
			out = append(out, fmt.Sprint(v))
		default:
			return nil, fmt.Errorf("must be a string, a number, true, false or a list of these")
		}
	}
	return out, nil
}
