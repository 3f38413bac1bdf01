#!/bin/sh
# A peer of Hubbub that echoes tg_message, made of the command line: it needs hubbub and jq.
# HUBBUB_BUS is the address of the bus, HUBBUB_TOKEN the token of the peer, if the bus wants one.
#
# It watches and sends: it reconnects and keeps order, but the bus does not count a watcher,
# so a sender is told that nobody subscribes, what is sent while the bus is away is missed, and an
# answer that is under way when the bus ends is not sent again.
# A peer that answers for its messages is `hubbub new peer --lang py`, ts or go.
set -eu
identity=agent:echo
bus=${HUBBUB_BUS:-ws://127.0.0.1:7892}

hubbub sub "$identity" --bus "$bus" --json | while IFS= read -r line; do
	[ "$(printf '%s' "$line" | jq -r .payload.type)" = tg_message ] || continue
	from=$(printf '%s' "$line" | jq -r .payload.from)
	content=$(printf '%s' "$line" | jq -c '.payload.content | {text, inReplyTo: (.sourceId // "")}')
	printf '%s' "$content" | hubbub pub "$from" --bus "$bus" --as "$identity" --type tg_reply --content - ||
		echo "$identity: the answer to $from was not taken" >&2
done
