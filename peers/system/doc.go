// Package system implements agent:system, the spawner. It starts an agent for each chat that
// requests one, keeps the agent running, and answers the requester.
//
//	db, err := system.Open(filepath.Join(data, "system.db"))
//	launcher := process.New(data, nil)
//	err = system.New(db, launcher, "/usr/bin/hubbub-agent", filepath.Join(data, "launch"), nil).Run(ctx)
//
// The files follow the path of a request: request (parsing and admission), pending (storage),
// name (choice of the agent's name), states (lifecycle of an agent), supervisor (finding,
// starting and watching its instance), credential (its rights on the bus), online (it has
// connected), announce (the answers). The launchers are the packages process and systemd.
//
// Guarantees:
//
//   - One agent: a topic has one agent of its own, with a permanent name. The name derives
//     from the topic; if it is taken, another derived name is chosen once and stored. A
//     request may name an agent instead, so that several chats share it. An agent has one
//     supervisor, which starts an instance only after the launcher found none. Therefore no
//     agent runs twice, even if the spawner was killed between a start and its record.
//   - Requests: a request is stored before it is acknowledged. It is answered when the agent
//     is online or has failed, even if the bus or the spawner restarts in between. Answers
//     (spawn_result to the requester, route_assigned to the topic) carry the requestId, and
//     are sent at least once, for up to 24 hours, until they are accepted. Repeating a
//     request that is not answered yet has no effect; a later repetition is answered again.
//   - Names: an agent's name matches [a-z0-9][a-z0-9-]{0,47}. Other names are refused, as are
//     topics that are not chats or that look like patterns. A bridge may request agents for
//     chats of its own family, an operator's command line for any chat.
//   - Bounds: Options.MaxAgents, MaxRequests and SpawnRate, and 200 chats per agent. Requests
//     beyond them are refused with a reason; starts beyond the rate wait.
//   - Failures: an agent that ends is restarted after a delay that doubles. After
//     Options.MaxRestarts in a row it fails: waiting requesters get a failed spawn_result, or
//     else each of its chats does, and system:agents gets a [LifecycleEvent]. The next request
//     tries again. If the agent is not at fault (no bus, no launcher), the start waits instead.
//   - Idle agents: an agent that Options.IdleStop ended starts again when a chat requests it,
//     or when the broker reports that a delivery is waiting for it.
//   - Hung agents: an agent is restarted if it is requested three times within 90 s and has
//     been absent from the bus for Options.StartTimeout, or 30 s if that is longer. The
//     spawner checks this by sending the agent a message. The check also covers an agent that
//     a broken cluster hides, since its chats cannot reach it either.
//   - Restart: after a restart the spawner adopts the agents that are running and starts the
//     missing ones. An agent that was online stays online.
//   - Credentials: a spawner with a token gets one credential for each agent from the bus. The
//     token may come after the start of the spawner. The credential grants the agent its
//     identity and its own topic, and publishing to its chats, system:* and collab:*. The
//     agent gets it in a file with mode 0600. It is revoked when the agent is stopped, has
//     failed, or needs another. Every credential is eventually revoked, even if the spawner is
//     killed. Another chat needs a wider credential, so it restarts the agent.
//   - Stop: when its context ends, Run accepts no more requests, and ends the agents unless
//     they outlive the spawner. It returns after every goroutine that it started has ended.
//
// Not guaranteed: that an agent which is online also answers, and that an announcement is sent
// exactly once. With Options.IdleStop, an agent ends after it has handled no message for that
// time, even if it is still working on one. Choose a time longer than its deadlines.
//
// The package implements sections 8 and 10 of the Agent Communication Protocol.
package system
