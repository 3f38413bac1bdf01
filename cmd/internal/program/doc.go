// Package program is the frame of every program in cmd. It reads the settings, sets up the log,
// announces readiness, and stops the program. A main only adds its own settings and its own Run:
//
//	func main() {
//		var settings struct {
//			Window time.Duration `flag:"window" default:"1s" usage:"how long to wait for more"`
//		}
//		program.Main(program.Program{
//			Name:     "hubbub-echo",
//			Summary:  "answers every message with its own text",
//			Settings: []any{&settings},
//			Run: func(ctx context.Context, env *program.Env) error {
//				data, err := env.MakeData()
//				if err != nil {
//					return err
//				}
//				p := peer.New("agent:echo", env.PeerOptions())
//				// ... once connected and subscribed: env.Ready()
//				return p.Run(ctx)
//			},
//		})
//	}
//
// Guarantees:
//
//   - Settings: a flag overrides its environment variable, which overrides the TOML file of
//     --config. The variable of --poll-timeout is HUBBUB_POLL_TIMEOUT, and its key in the file is
//     poll-timeout. A key that is not a flag of the program is refused. --config FILE#TABLE reads
//     one table of a file, and log-level and log-format from its top. A repeatable flag is an
//     array in the file. Its variable has one value per line, or values separated by commas.
//   - Secrets come from the environment or from files, never from flags. Once
//     read by [Env.Secret] or [Env.Token], they are removed from every log line
//     and error that the frame prints.
//   - Log: lines are written at once and in order. A standard error that hangs or has
//     lost its reader does not delay or end the program. Up to 1,024 lines wait, and
//     further lines are dropped. A log line reports their number once the stream works
//     again. The end of the program waits at most 500 ms for the stream.
//   - Exit: 0 after success or a clean stop, 1 with one plain sentence on stderr after a failure,
//     2 when flags, variables, file or arguments are wrong (see [Usage]). An error that may
//     disappear without a change to the settings is a failure, even at the start (see
//     [Retryable]): an address that cannot be bound, a missing or empty file, a failed lookup,
//     too many open files. A panic and SIGABRT print every goroutine and end the process by that signal, so
//     that its supervisor restarts it.
//   - Stop: SIGTERM, SIGINT or, if the terminal is gone, SIGHUP ends the context of
//     Run. Run then has 10 seconds. After that, or at a second signal, the program
//     ends at once with exit 1. A service only logs SIGHUP, because it reads changed
//     tokens and certificates automatically.
//   - Container: as the first process, the program runs as a child of itself. The
//     parent forwards signals, reaps orphans and ends with the same exit code.
//   - Ready: [Env.Ready] writes one log line with the message "ready" at every
//     log level, and notifies systemd.
//   - Alive: [Env.Pulse] feeds systemd's watchdog. The main loop calls it, never a
//     separate timer, so that a hanging program is aborted. The peer of
//     [Env.PeerOptions] and the sweep of the bus call it.
//
// The command line hubbub has many commands. It uses [Attach] and [Execute] for the same frame
// around cobra. Its commands get their Env from [From].
package program
