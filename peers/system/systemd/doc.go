// Package systemd runs agents as transient units of systemd, over D-Bus. It is a
// [system.Launcher].
//
// Guarantees:
//
//   - The agent NAME is the unit hubbub-agent-NAME.service in hubbub-agents.slice. Its log is
//     in the journal (journalctl -u hubbub-agent-NAME). systemd runs at most one unit of each
//     name, so an agent never runs twice.
//   - Units keep running after the spawner has ended, and are found by their names. systemd
//     does not restart them; the spawner does.
//   - Arguments reach the agent unchanged, without expansion of variables or specifiers. The
//     token is passed as a credential of the unit, which only the unit can read. The
//     environment is read from a file that only its owner can read and that is removed after
//     the start; it is not a property of the unit.
//   - With the system manager, units run as separate users (DynamicUser, or Options.User)
//     with their data in /var/lib/hubbub-agent-NAME. With a user manager they run as that
//     user, with their data below the spawner's folder. They cannot gain privileges. With the
//     system manager they can write only to their data and a private /tmp, see no home
//     folders and no other processes, and have the same sandbox as the units in
//     deploy/systemd. A user manager applies the parts that need no privileges: system calls,
//     sockets, namespaces, executable memory. Spec.Unit relaxes the sandbox for a harness,
//     see [CheckUnit].
//   - Limits: MemoryMax (without swap), TasksMax, LimitNOFILE and RuntimeMaxSec, as configured. A
//     kill at MemoryMax is reported as such; with cgroups version 1, only if it can be detected.
//
// Run keeps the connection to D-Bus open and reconnects when it breaks. systemd must be version
// 247 or later.
package systemd
