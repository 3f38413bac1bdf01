// Package proc runs other programs as child processes, without a shell: the programs of `hubbub
// up`, the agents of the spawner and the programs of harnesses.
//
// Guarantees:
//
//   - A process leads a process group of its own, so Ctrl-C at a terminal reaches only its
//     owner. Signals go to the whole group, and never to another group that reuses its
//     number.
//   - Done is closed when the process has ended, the rest of its group has been killed, and
//     its output has been read: to the end, or for 500 ms if a process outside the group
//     still holds it open. On Linux, the rest of the session of a confined process has been
//     killed, too, such as what the program of a harness started.
//   - If the owner is killed, Linux sends the process Options.ParentDeathSignal. Processes
//     that it started receive nothing. Other systems send nothing; there, an owner that exits
//     in a hurry sends the signal with KillDependents.
//   - The environment is exec.Cmd.Env and nothing else. See [DropEnv] for how to pass on
//     parts of the owner's environment.
//   - Lines are cut at Options.MaxLine, so memory is bounded.
package proc
