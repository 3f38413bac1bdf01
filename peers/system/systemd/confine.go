package systemd

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A filter is a list of what is allowed, or of what is not, as D-Bus wants it.
type filter struct {
	Allow bool
	Names []string
}

// A restriction is one property that confines an agent's unit.
type restriction struct {
	name   string
	value  any  // true where the unit is to have it
	system bool // only the system's manager can set it
}

// restrictions are those of every agent's unit: the units of our own programs in
// deploy/systemd have the same. [CheckUnit] says which of them may be changed, and how.
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

// deniedCalls are the system calls that none of the allowed groups brings, unless they
// are named.
var deniedCalls = filter{false, []string{"@privileged", "@resources"}}

// someNamespaces are what a unit may make whose namespaces are restricted: none, as this
// one needs a capability that no agent has. But of none at all systemd makes a unit that a
// reload takes for one without restriction.
const someNamespaces = unix.CLONE_NEWUTS

// allNamespaces are what a unit may make whose namespaces are not restricted.
const allNamespaces = unix.CLONE_NEWCGROUP | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUSER | unix.CLONE_NEWUTS

// CheckUnit returns nil if a line such as MemoryDenyWriteExecute=no changes what confines
// an agent's unit, or what is wrong with it. Lists are added to what is allowed.
func CheckUnit(line string) error {
	_, err := change(line)
	return err
}

// change returns what a line makes of a restriction.
func change(line string) (restriction, error) {
	name, value, found := strings.Cut(line, "=")
	i := slices.IndexFunc(restrictions, func(r restriction) bool { return r.name == name })
	if !found || i < 0 {
		return restriction{}, fmt.Errorf("%q is none of these, with = and a value: %s", line, strings.Join(changeable(), ", "))
	}
	r := restrictions[i]
	switch now := r.value.(type) {
	case bool:
		if value != "yes" && value != "no" {
			return r, fmt.Errorf("%s is yes or no, not %q", name, value)
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
		return r, fmt.Errorf("%s wants a value", name)
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

// confine sets the properties that confine a unit, with the changes of some lines, which
// [CheckUnit] has checked.
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
