package systemd

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A filter is a list of allowed or denied items, as D-Bus represents it.
type filter struct {
	Allow bool
	Names []string
}

// A restriction is a property that sandboxes an agent's unit.
type restriction struct {
	name   string
	value  any  // true for a boolean
	system bool // only the system manager can set it
}

// restrictions are the restrictions of every agent's unit. The units in deploy/systemd have the
// same. [CheckUnit] checks changes to them.
var restrictions = []restriction{
	{"LockPersonality", true, false},
	{"MemoryDenyWriteExecute", true, false},
	{"PrivateTmp", true, false},
	{"ProtectSystem", "strict", false},
	{"RestrictAddressFamilies", filter{true, []string{"AF_UNIX", "AF_INET", "AF_INET6"}}, false},
	{"RestrictRealtime", true, false},
	{"RestrictSUIDSGID", true, false},
	{"SystemCallArchitectures", []string{"native"}, false},
	{"SystemCallFilter", filter{true, []string{"@system-service"}}, false},
	{"DevicePolicy", "closed", true},
	{"PrivateDevices", true, true},
	{"PrivateIPC", true, true},
	{"PrivateUsers", true, true},
	{"ProcSubset", "pid", true},
	{"ProtectClock", true, true},
	{"ProtectControlGroups", true, true},
	{"ProtectHome", "yes", true},
	{"ProtectHostname", true, true},
	{"ProtectKernelLogs", true, true},
	{"ProtectKernelModules", true, true},
	{"ProtectKernelTunables", true, true},
	{"ProtectProc", "invisible", true},
	{"RemoveIPC", true, true},
	{"RestrictNamespaces", true, false},
	{"ReadOnlyPaths", []string{}, false},
	{"ReadWritePaths", []string{}, false},
}

// deniedCalls are system calls that are denied unless they are named, since no allowed group
// contains them.
var deniedCalls = filter{false, []string{"@privileged", "@resources"}}

// Flags of clone(2) that create namespaces. Units are described in terms of Linux on
// every platform, so these are numbers of our own.
const (
	cloneMount  = 0x00020000
	cloneCgroup = 0x02000000
	cloneUTS    = 0x04000000
	cloneIPC    = 0x08000000
	cloneUser   = 0x10000000
	clonePID    = 0x20000000
	cloneNet    = 0x40000000
)

// someNamespaces are the namespaces that a restricted unit may create. This one needs a
// capability that no agent has, so there are none in effect. If the set were empty, a reload of
// systemd would lift the restriction.
const someNamespaces = cloneUTS

// allNamespaces are the namespaces that an unrestricted unit may create.
const allNamespaces = cloneCgroup | cloneIPC | cloneNet | cloneMount | clonePID | cloneUser | cloneUTS

// CheckUnit checks a line such as MemoryDenyWriteExecute=no that changes the sandbox of an
// agent's unit. Lists are added to what is allowed.
func CheckUnit(line string) error {
	_, err := change(line)
	return err
}

// change parses a line and returns the changed restriction.
func change(line string) (restriction, error) {
	name, value, found := strings.Cut(line, "=")
	i := slices.IndexFunc(restrictions, func(r restriction) bool { return r.name == name })
	if !found || i < 0 {
		return restriction{}, fmt.Errorf("%q is not one of these, followed by = and a value: %s", line,
			strings.Join(changeable(), ", "))
	}
	r := restrictions[i]
	switch now := r.value.(type) {
	case bool:
		if value != "yes" && value != "no" {
			return r, fmt.Errorf("%s must be yes or no, not %q", name, value)
		}
		r.value = value == "yes"
	case filter:
		r.value = filter{now.Allow, strings.Fields(value)}
	case []string:
		r.value = strings.Fields(value)
	default:
		r.value = value
	}
	if _, list := r.value.(string); !list && value == "" {
		return r, fmt.Errorf("%s needs a value", name)
	}
	return r, nil
}

func changeable() (names []string) {
	for _, r := range restrictions {
		names = append(names, r.name)
	}
	slices.Sort(names)
	return names
}

// confine sets the sandbox properties of a unit, changed by the given lines, which [CheckUnit]
// has checked.
func confine(set func(name string, value any), system bool, lines []string) error {
	changes := map[string][]any{}
	for _, line := range lines {
		r, err := change(line)
		if err != nil {
			return err
		}
		changes[r.name] = append(changes[r.name], r.value)
	}
	for _, r := range restrictions {
		if r.system && !system {
			continue
		}
		values := []any{r.value}
		switch r.value.(type) {
		case filter:
			if r.name == "SystemCallFilter" {
				values = append(values, deniedCalls)
			}
			values = append(values, changes[r.name]...)
		case []string:
			values = append(values, changes[r.name]...)
		default:
			if more := changes[r.name]; len(more) > 0 {
				values = more[len(more)-1:]
			}
		}
		for _, value := range values {
			if r.name == "RestrictNamespaces" {
				value = map[any]uint64{true: someNamespaces, false: allNamespaces}[value]
			}
			if list, ok := value.([]string); !ok || len(list) > 0 {
				set(r.name, value)
			}
		}
	}
	set("SystemCallErrorNumber", int32(unix.EPERM))
	return nil
}
