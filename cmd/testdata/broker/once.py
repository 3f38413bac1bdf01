"""A sender of somebody else's, written from `hubbub help protocol` alone.

usage: once.py BUS partial|whole

It sends messages that are taken once, each a new one, until a result speaks for a part of the
cluster, or for the whole. It prints which buses that result misses.
"""

import sys
import time
import uuid

from bus import Bus, Refused, now

bus = Bus(sys.argv[1], "cli:sender", lambda *_: None)
while True:
    message = {"messageId": str(uuid.uuid4()), "type": "agent_event", "from": "cli:sender", "content": {}, "timestamp": now()}
    try:
        result = bus.call("sendMessage", {"topic": "agent:nobody", "payload": message, "once": True})
        if result.get("missing") if sys.argv[2] == "partial" else not result.get("partial"):
            break
    except Refused:
        pass  # the bus does not know yet who answers
    time.sleep(0.1)
print(*result.get("missing", ["none"]))
