// Package process starts agents as processes of this machine. It is a
// [system.Launcher].
//
// Guarantees:
//
//   - Each agent leads a process group of its own; stopping it sends SIGTERM to
//     the group, and SIGKILL to what is left of it after Options.StopTimeout.
//   - Agents end with the spawner: Run's owner stops them, and where the spawner
//     is killed, Linux sends them SIGTERM. With Options.KeepAgents they go on.
//   - Find recognizes an agent by process id and start time, which the kernel
//     never gives twice, and one that was started but not recorded by its
//     arguments. Without /proc (on other systems than Linux) it finds nothing,
//     and KeepAgents is refused by [Launcher.Start].
//   - An agent's data folder is <folder>/agents/<name>, its log
//     <folder>/launch/<name>.log, all readable by this user alone. Logs are cut at
//     Options.MaxLog, and one older file is kept beside each. A log is watched
//     once a second, so it can be larger by what is written in a second, and the
//     lines that are written at the moment of the cut can be missing.
//   - The environment of an agent is what its Spec says and nothing else. On Linux
//     only the same user and root can read it.
//   - Of the limits, memory is enforced (RLIMIT_DATA, on Linux); the number of
//     tasks is not.
package process
