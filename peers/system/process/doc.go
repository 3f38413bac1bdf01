// Package process starts agents as processes of this machine. It is a
// [system.Launcher].
//
// Guarantees:
//
//   - Each agent leads a session, and so a process group, of its own; stopping it sends SIGTERM to
//     the group, and SIGKILL to what is left of it after Options.StopTimeout.
//   - Agents end with the spawner: the spawner stops them, and if it is killed, Linux
//     sends them SIGTERM. With Options.KeepAgents they go on.
//   - Find recognizes an agent by its process id and start time, a pair that the
//     kernel never uses twice, and an agent that was started but not recorded by its
//     arguments. Without /proc (on systems other than Linux) it finds nothing, and
//     [Launcher.Start] refuses KeepAgents.
//   - An agent's data folder is <folder>/agents/<name>, its log
//     <folder>/launch/<name>.log, all readable by this user alone. Logs are cut at
//     Options.MaxLog, and one older file is kept beside each. Sizes are checked once
//     a second, so a log can be larger by what is written in a second, and lines
//     written at the moment of the cut can be lost.
//   - The environment of an agent is that of its Spec and nothing else. On Linux only
//     the same user and root can read it.
//   - On Linux neither an agent nor what it starts gains privileges by executing a
//     program, or leaves a core. Each of its processes has limits: memory
//     (RLIMIT_DATA), open files, and tasks, of which the kernel counts those of the user:
//     as many more as the user had at the agent's start. Root has no limit of tasks.
package process
