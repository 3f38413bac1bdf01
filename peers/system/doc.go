// Package system is agent:system, the spawner: it starts an agent for each chat that
// asks for one, keeps the agent running, and answers the requester.
//
//	db, err := system.Open(filepath.Join(data, "system.db"))
//	launcher := process.New(data, nil)
//	err = system.New(db, launcher, "/usr/bin/hubbub-agent", filepath.Join(data, "launch"), nil).Run(ctx)
//
// The files follow the path of a request: request (what it asks for), waiting (how it
// is stored), name (which agent that is), life (what may follow what in the life of an
// agent), keeper (its instance is found or started, and watched), credential (what it
// may do on the bus), online (it has connected), announce (the answers). Launchers are
// packages of their own: process and systemd.
//
// Guarantees:
//
//   - One agent: a topic has one agent of its own, of the same name for ever. Its
//     name derives from the topic; if that name is taken, another derived one is
//     chosen once and stored. A request may name an agent instead, which several
//     chats may share on purpose. An agent has one keeper, which starts an instance
//     only after the launcher found none. So no agent runs twice, even if the
//     spawner was killed between a start and its record.
//   - No request is lost: it is stored before it is acknowledged, and answered when
//     the agent has said that it is online, or has failed, even if the bus or the
//     spawner restarts meanwhile. Answers (spawn_result to the requester, route_assigned to the
//     topic) carry the requestId, and go out at least once, for up to 24 hours,
//     until their addressee takes them. The same request again, while it waits or
//     its answers are on the way, changes nothing; later it is answered again.
//   - Names: an agent's name is [a-z0-9][a-z0-9-]{0,47}. Any other is refused, and
//     so are topics that are no chats or that could be read as patterns. A bridge
//     may ask for chats of its own family, an operator's command line for any.
//   - Bounds: Options.MaxAgents, MaxRequests, and SpawnRate for starts; 200 chats
//     of one agent. What exceeds them is refused with a reason, except that starts
//     above the rate wait.
//   - Failure shows: an agent that ends is started again after a pause that doubles;
//     after Options.MaxRestarts in a row it is given up: whoever waits gets a failed
//     spawn_result, or else each of its chats does, and system:agents gets an
//     agent_event ([LifecycleEvent]). The next request tries again. If the fault is
//     not the agent's (no bus, no launcher), the start waits instead.
//   - Back: an agent that Options.IdleStop ended runs again, once, when a chat asks for
//     it, or when the broker says that a delivery waits for it.
//   - Hanging: an agent whose process runs is ended and started again if it is asked
//     for three times within 90 s and has not been on the bus for
//     Options.StartTimeout, or 30 s if that is more. The spawner looks by telling the
//     agent that it is wanted. This includes an agent that a broken cluster hides:
//     its chats cannot reach it either.
//   - Restart: after a restart the spawner takes over the agents that run and starts
//     those that are missing. An agent that was online stays online.
//   - Credentials: with a token of its own the spawner gets one credential for each
//     agent from the bus: to be itself, to hear its own topic, to publish to its
//     chats, system:* and collab:*. It reaches the agent in a file of mode 0600 and
//     is revoked when the agent is stopped for good, given up, or needs another. No
//     kill leaves one that is never revoked. Another chat needs a wider credential
//     and so restarts the agent.
//   - Stop: when its context ends, Run takes no more requests and ends the agents, or
//     leaves them running if the launcher says so. It returns after every goroutine
//     that it started has ended.
//
// Not promised: that an agent which is online also answers, and that an announcement
// comes exactly once. With Options.IdleStop an agent ends after it judged no message
// for that long, even if it still works on one: choose a time longer than its
// deadlines.
//
// It implements sections 8 and 10 of the Agent Communication Protocol for
// agent:system.
package system
