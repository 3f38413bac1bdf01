"""A C2A program, written from docs/c2a-programs.md alone. It drops what it knows, by the
idempotencyKey, and writes every event to the file of its argument.
"""
import json
import sys

seen, deferred, calls = set(), [], 0


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def call(name, **arguments):
    global calls
    calls += 1
    say(id=f"call-{calls}", method="tools/call", params={"name": name, "arguments": arguments})


def send(event_id, key, text):
    call("chat.send_message", inReplyTo=event_id, idempotencyKey=key, text=text, visibility="channel", directedness="ambient")


def act(event):
    event_id, key = event["eventId"], event["reliability"]["idempotencyKey"]
    if key in seen:
        return
    seen.add(key)
    text = "".join(part.get("text", "") for part in event.get("content") or [])
    if "knock" in event:
        call("chat.claim", eventId=event_id)
    elif "mumble" in text:
        call("chat.react", inReplyTo=event_id, signal="unclear")
    elif "post into" in text:
        call("chat.send_file", inReplyTo=event_id, path="plan.txt", caption="The plan.")
        call("chat.post", target="tg:" + event["conversation"]["id"], threadId=text.split()[-1], text="It is built.", reason="asked to")
        send(event_id, key, "It is posted.")
    elif "put off" in text:
        deferred.append(event_id)
        call("chat.defer", eventId=event_id, reason="busy", eta="1h")
    elif "is it up" in text:
        send(event_id, key, "It is up.")
    else:
        if event["attention"]["policy"] == "must_respond":
            call("chat.react", inReplyTo=event_id, signal="seen")  # a receipt, and no answer
        elif event["attention"]["reason"] != "edited_after_response":
            return
        send(event_id, key, "I read: " + text.split(" ", 1)[1])
        while deferred:
            send(deferred.pop(), "late", "And here is what I put off.")


for line in sys.stdin:
    message = json.loads(line)
    with open(sys.argv[1], "a") as log:
        log.write(line)
    if message.get("method") == "initialize":
        say(id=message["id"], result={"protocolVersion": message["params"]["protocolVersion"], "capabilities": {}})
    elif message.get("method") == "chat/deliver":
        say(id=message["id"], result={"accepted": True})
        act(message["params"])
