#!/bin/sh
# A peer of Hubbub that echoes what it is told, made of the command line: it needs hubbub and jq.
# HUBBUB_BUS is the address of the bus, HUBBUB_TOKEN the token of the peer, if the bus wants one
# (give hubbub the --config or --data of `hubbub up`, if it has one):
#   hubbub token create agent:echo --identity agent:echo --identity 'cli:sub-*' --subscribe agent:echo --publish 'cli:*' --publish 'tg:*'
#
# It watches and sends: it reconnects and keeps order, but the bus does not count a watcher,
# so a sender is told that nobody subscribes, and `hubbub chat` does not wait for it (try
# hubbub pub agent:echo --type chat_message hello), what is sent while the bus is away is missed, and an
# answer that is under way when the bus ends is not sent again.
# A peer that answers for its messages is `hubbub new peer --lang py`, ts or go.
set -eu
identity=agent:echo
bus=${HUBBUB_BUS:-ws://127.0.0.1:7892}

hubbub sub "$identity" --bus "$bus" --json | while IFS= read -r line; do
	[ "$(printf '%s' "$line" | jq -r .payload.content.author.kind)" != agent ] || continue # two that answer each other never end
	case $(printf '%s' "$line" | jq -r .payload.type) in
	tg_message) answer=tg_reply ;;
	chat_message) answer=chat_reply ;;
	*) continue ;;
	esac
	from=$(printf '%s' "$line" | jq -r .payload.from)
	content=$(printf '%s' "$line" | jq -c '.payload | {text: .content.text, inReplyTo: (.content.sourceId // .messageId)}')
	printf '%s' "$content" | hubbub pub "$from" --bus "$bus" --as "$identity" --type "$answer" --content - ||
		echo "$identity: the answer to $from was not taken" >&2
done
