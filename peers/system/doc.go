// Package system is agent:system, the spawner: it starts an agent for each chat
// that asks for one, keeps it running, and tells who asked.
//
//	db, err := system.Open(filepath.Join(data, "system.db"))
//	launcher := process.New(data, nil)
//	err = system.New(db, launcher, "/usr/bin/hubbub-agent", filepath.Join(data, "launch"), nil).Run(ctx)
//
// The files show the path of a request: request (what it asks for, stored), name
// (which agent that is), keeper (its instance is found or started, and watched),
// credential (what it may do on the bus), online (it is there), announce (the
// answers). Launchers are packages of their own: process and systemd.
//
// Guarantees:
//
//   - One agent: a topic has one agent of its own, of the same name for ever. Its
//     name derives from the topic; where that is taken, another derived one is
//     chosen once and stored. A request may name an agent instead, which several
//     chats may share on purpose. An agent has one keeper, which starts an
//     instance only after the launcher found none, so no agent runs twice, also
//     where the spawner was killed between a start and its record.
//   - No request is lost: it is stored before it is acknowledged, and answered when
//     the agent has said that it is online, or has failed, whoever restarts
//     meanwhile. Answers (spawn_result to the requester, route_assigned to the
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
//     agent_event ([LifecycleEvent]). The next request tries again. What is no fault
//     of the agent (no bus, no launcher) is waited for instead.
//   - Hanging: an agent whose process runs is ended and started again where it is
//     asked for three times within 90 s and has not been on the bus for
//     Options.StartTimeout, or 30 s if that is more. It is told that it is wanted,
//     which shows whether it is there. So is one that a broken cluster hides: its
//     chats cannot reach it either.
//   - Restart: a new life of the spawner takes over the agents that run and starts
//     those that are missing. An agent that was online stays so.
//   - Credentials: with a token of its own the spawner gets one credential for each
//     agent from the bus: to be itself, to hear its own topic, to publish to its
//     chats, system:* and collab:*. It reaches the agent in a file of mode 0600 and
//     is revoked when the agent is stopped for good, given up, or needs another. No
//     kill leaves one that is never revoked. A further chat needs a wider credential
//     and so restarts the agent.
//   - Stop: when its context ends, Run takes nothing new and ends the agents, or
//     leaves them where the launcher says so; it returns after every goroutine that
//     it started has ended.
//
// Not promised: that an agent which is online also answers, and exactly one
// announcement. With Options.IdleStop an agent ends when it judged no message for
// so long, even if it still works on one: choose it longer than its deadlines.
//
// It implements sections 8 and 10 of the Agent Communication Protocol for
// agent:system.
package system
