// Package proc runs other programs as child processes, without a shell. The
// programs of `hubbub up`, the agents of the spawner and the programs of harnesses
// are all started here.
//
// Guarantees:
//
//   - A process leads a process group of its own, so that Ctrl-C at a terminal
//     reaches only its owner. Signals go to the whole group, and never to a group
//     that took over its number.
//   - Done is closed when the process has ended, what it left behind in its group is
//     killed, and its output is read: to its end, or for 500 ms where somebody who
//     left the group holds it open.
//   - If the owner is killed, Linux sends the process Options.ParentDeathSignal. What the
//     process had started itself gets nothing.
//   - The environment is exec.Cmd.Env and nothing else; see [Without] for what of
//     our own to hand on.
//   - Lines are cut at Options.MaxLine; memory is bounded.
package proc
