"""Two peers of somebody else's, written from `hubbub help protocol` alone: one watches the
assignments of chats, and an agent says a word in each new one and hears what becomes of it.

usage: watch.py BUS

It prints what each hears as a line.
"""

import os
import queue
import signal
import sys

from bus import Bus

printed = queue.Queue()


def assigned(topic, m):
    if m["type"] == "route_assigned":
        printed.put(f"{topic} {m['from']}: {m['content']['topic']} to {m['content']['agent']}")
        agent.send(m["content"]["topic"], "tg_reply", {"text": "a word of Python", "idempotencyKey": "word-1"})


def heard(topic, m):
    if m["type"] == "delivery_status":
        printed.put(f"{m['from']}: {m['content']['status']} {m['content'].get('idempotencyKey')} {m['content'].get('reason', '')}")


agent = Bus(sys.argv[1], "agent:python", heard)
watcher = Bus(sys.argv[1], "cli:watcher", assigned, topic="system:route")
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
print("ready", file=sys.stderr, flush=True)
while True:
    print(printed.get(timeout=600), file=sys.stderr, flush=True)
