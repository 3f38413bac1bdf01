// Package program is the frame of every program in cmd: it reads the settings, sets up
// the log, says when the program is ready, and stops it. A main consists only of its
// own flags and its own Run:
//
//	func main() {
//		var window time.Duration
//		program.Main(program.Program{
//			Name:    "hubbub-echo",
//			Summary: "answers every message with its own text",
//			Flags: func(fs *pflag.FlagSet) {
//				fs.DurationVar(&window, "window", time.Second, "how long to wait for more")
//			},
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
//   - Settings: a flag wins over its environment variable, which wins over the
//     TOML file of --config. The variable of --poll-timeout is
//     HUBBUB_POLL_TIMEOUT, its key in the file poll-timeout. A key in the file
//     that is no flag of the program is refused. --config FILE#TABLE reads one
//     table of a file, and log-level and log-format from its top. A repeatable flag
//     is an array in the file; its variable holds one value a line, or values
//     separated by commas.
//   - Secrets come from the environment or from files, never from flags. Once
//     read by [Env.Secret] or [Env.Token], they are cut out of every log line
//     and error that the frame prints.
//   - Log: a line is written at once, in order. A standard error that hangs or has lost
//     its reader delays and ends nothing: up to 1,024 lines wait, further lines are
//     dropped, and a log line says how many once the stream works again. The end of the
//     program waits at most 500 ms for the stream.
//   - Exit: 0 after success or a clean stop, 1 with one plain sentence on
//     stderr after a failure, 2 when flags, variables, file or arguments are
//     wrong (see [Usage]). A panic and SIGABRT print every goroutine and end the
//     process by that signal, so that its supervisor starts it again.
//   - Stop: SIGTERM, SIGINT or, if the terminal is gone, SIGHUP ends the context of
//     Run. Run has 10 seconds from then; after that, or at a second signal, the
//     program ends at once with exit 1. A service only logs SIGHUP: there is nothing
//     that it must be told to read again.
//   - Ready: [Env.Ready] writes one log line with the message "ready",
//     whatever the log level, and tells systemd.
//   - Alive: [Env.Pulse] feeds systemd's watchdog. The loop that does the work calls
//     it, never a separate timer, so that a program which hangs is aborted. The peer
//     of [Env.PeerOptions] and the sweep of the bus call it.
//
// The command line hubbub, which has many commands, uses [Attach] and [Execute] for the
// same frame around cobra. Its commands get their Env from [From].
package program
