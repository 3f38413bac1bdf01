// Package program is the frame of every program in cmd: where settings come
// from, where the log goes, how a program says that it is ready, and how it
// stops. A main is then only its own flags and its own Run:
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
//     table of a file, and log-level and log-format from its top. A repeatable
//     flag is an array in the file; in its variable, lines or, in one line,
//     commas divide it.
//   - Secrets come from the environment or from files, never from flags. Once
//     read by [Env.Secret] or [Env.Token], they are cut out of every log line
//     and error that the frame prints.
//   - Exit: 0 after success or a clean stop, 1 with one plain sentence on
//     stderr after a failure, 2 when flags, variables, file or arguments are
//     wrong (see [Usage]). A panic and SIGABRT print every goroutine and end the
//     process by that signal, so that whoever watches starts it again.
//   - Stop: SIGTERM, SIGINT or, where a terminal has gone, SIGHUP ends the context
//     of Run. Run has 10 seconds from then; afterwards, or at a second signal, the
//     program ends at once with exit 1. SIGHUP to a service is logged: there is
//     nothing that it would have to be told to read again.
//   - Ready: [Env.Ready] writes one log line with the message "ready",
//     whatever the log level, and tells systemd.
//   - Alive: [Env.Pulse] feeds systemd's watchdog. The loop that does the work calls
//     it, never a timer of its own, so that a program which hangs is aborted:
//     the peer of [Env.PeerOptions] does, and the sweep of the bus.
//
// The command line hubbub, which has many commands, uses [Attach] and
// [Execute] for the same frame around cobra; its commands get their Env from
// [From].
package program
