#!/usr/bin/env python3
"""A C2A program: it answers what it must answer, once. Put your model into answer().

Check it:  hubbub conformance c2a --harness-command "python3 agent.py"
Run it:    hubbub-agent --id lead --harness c2a --harness-command "python3 agent.py"
`hubbub help c2a` describes the protocol. Nothing but JSON-RPC may be written to stdout.
"""
import json
import sys

seen = set()  # a program that may restart keeps this in a file, and the events that it works on


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(event, text):
    """Return the answer. event["instructions"] holds the rules for a model's system prompt."""
    return f"You said: {text}"


def text_of(event):
    content = event.get("content") or "(ask chat.read_thread)"  # a knock withholds its content
    return content if isinstance(content, str) else "\n".join(p.get("text", "") for p in content)


def act(event):
    key = event["reliability"]["idempotencyKey"]  # another one says: the text, or your claim, is new
    policy = event.get("policy") or event["attention"]["policy"]
    if key not in seen and policy == "must_respond":
        arguments = {"inReplyTo": event["eventId"], "idempotencyKey": f"answer:{key}", "text": answer(event, text_of(event)),
                     "visibility": event["conversation"]["kind"], "directedness": "ambient"}  # it obliges nobody
        say(id=f"call:{key}", method="tools/call", params={"name": "chat.send_message", "arguments": arguments})
    seen.add(key)


for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        utilities = {"progress": True, "cancellation": False, "logging": True}  # the other groups: all of them
        say(id=message["id"], result={"protocolVersion": params["protocolVersion"], "capabilities": {"utilities": utilities}})
    elif method == "chat/deliver":
        say(id=message["id"], result={"accepted": True})
        act(params)
    elif method and "id" in message:
        say(id=message["id"], error={"code": -32601, "message": f"unknown method {method}"})
    elif "result" in message and message["result"].get("isError"):  # refused: the text says what to do instead
        say(method="notifications/message", params={"level": "warning", "data": message["result"]["content"]})
