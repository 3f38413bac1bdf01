// Package process starts agents as processes of this machine. It is a [system.Launcher].
//
// Guarantees:
//
//   - Each agent leads its own session and process group. Stopping it sends SIGTERM to the
//     group, and SIGKILL after Options.StopTimeout.
//   - Agents end with the spawner: it stops them, and if it is killed, Linux sends them
//     SIGTERM. With Options.KeepAgents they keep running.
//   - Find recognizes an agent by its process id and start time, a pair that the kernel never
//     reuses. It recognizes an agent that was started but not recorded by its arguments.
//     Without /proc (on systems other than Linux) it finds nothing, and [Launcher.Start]
//     refuses KeepAgents.
//   - An agent's data folder is <folder>/agents/<name>, its log <folder>/launch/<name>.log.
//     Only this user can read them. Logs are cut at Options.MaxLog, and one older file is
//     kept. Sizes are checked once a second, so a log can temporarily exceed the limit, and
//     lines written at the moment of the cut can be lost.
//   - The environment of an agent is exactly that of its Spec. On Linux only the same user
//     and root can read it.
//   - On Linux neither an agent nor its descendants gain privileges by executing a program,
//     or dump core. Each process has limits: memory (RLIMIT_DATA), open files, and tasks. The
//     kernel counts the tasks of the user, so the limit is added to the number at the start of
//     the agent. Root has no limit of tasks.
package process
