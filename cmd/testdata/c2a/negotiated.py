"""A C2A program that refuses capabilities, written from docs/c2a-programs.md alone. It writes every
line to a file, and logs a line for each event.

usage: negotiated.py FILE [GROUP.MEMBER...]

It accepts no event with the word "lost", answers the others that must be answered, and ends itself
at the word "crash" without a word.
"""
import json
import sys

names = {
    "delivery": ["ack", "redelivery", "idempotency"],
    "injection": ["immediate", "buffered", "notify", "tool_mailbox", "digest", "interrupt"],
    "chatTools": ["readThread", "sendMessage", "react", "reactionSignals", "claim", "defer", "resolve"],
    "utilities": ["progress", "cancellation", "logging"],
}


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    with open(sys.argv[1], "a") as log:
        log.write(line)
    if message.get("method") == "initialize":
        claims = {group: {name: group + "." + name not in sys.argv[2:] for name in list} for group, list in names.items()}
        say(id=message["id"], result={"protocolVersion": message["params"]["protocolVersion"], "capabilities": claims})
    elif message.get("method") == "chat/deliver":
        event = message["params"]
        text = "".join(part.get("text", "") for part in event.get("content") or [])
        say(method="notifications/message", params={"level": "warning", "logger": "python", "data": {"level": "odd", "text": "a line of Python"}})
        if "crash" in text:
            sys.exit(3)
        if "lost" in text:
            continue
        say(id=message["id"], result={"accepted": True})
        if event["attention"]["policy"] == "must_respond":
            say(id=event["eventId"], method="tools/call", params={"name": "chat.send_message", "arguments": {
                "inReplyTo": event["eventId"], "idempotencyKey": event["reliability"]["idempotencyKey"], "text": "Shall I go on?", "visibility": "channel", "directedness": "ambient"}})
