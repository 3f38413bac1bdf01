// Package systemd runs agents as transient units of systemd, over D-Bus. It is a
// [system.Launcher].
//
// Guarantees:
//
//   - The agent NAME is the unit hubbub-agent-NAME.service in hubbub-agents.slice;
//     its log is in the journal (journalctl -u hubbub-agent-NAME). systemd starts
//     at most one unit of each name, so an agent never runs twice.
//   - Units go on after the spawner has ended, and are found again by their names.
//     systemd does not start them again; the spawner does.
//   - Arguments reach the agent as they are: nothing expands variables or
//     specifiers in them. The token comes as a credential of the unit, readable by
//     it alone. The environment comes from a file that only its owner can read and
//     that is removed after the start; it is in no property of the unit.
//   - With the system's manager, units run as users of their own (DynamicUser, or
//     Options.User) with their data in /var/lib/hubbub-agent-NAME. With a user's
//     manager they run as that user, with their data below the spawner's folder.
//     They can gain no privileges. With the system's manager they write nowhere but
//     to their data and a private /tmp, see no homes and no processes of others, and
//     are confined as the units of our own programs are; a user's manager confines them
//     by what needs no privileges: system calls, sockets, namespaces, executable memory.
//     Spec.Unit gives back what a harness needs, see [CheckUnit].
//   - Limits: MemoryMax (without swap), TasksMax, LimitNOFILE and RuntimeMaxSec, as
//     configured. Who is killed at MemoryMax is said to have been, with version 1 of
//     cgroups as far as that tells.
//
// Run holds the connection to D-Bus, and opens it again when it breaks.
//
// It needs systemd 247 or later.
package systemd
