"""An agent of somebody else's that gives another one work, and prints what becomes of its wake.
Written from `hubbub help broker` and asyncapi.json alone.

usage: invoke.py BUS AGENT
"""

import queue
import sys

from bus import Bus

answers, events = queue.Queue(), queue.Queue()


def handle(topic, m):
    if m["from"] == "collab:broker":
        (answers if m["type"] == "collab_result" else events).put(m["content"])


def ask(method, **params):
    bus.send("collab:broker", "collab_request", {"method": method, "params": params, "requestId": method})
    answer = answers.get(timeout=60)
    if not answer["ok"]:
        raise SystemExit(f"{method}: {answer['error']}")
    return answer["result"]


bus = Bus(sys.argv[1], "agent:py-boss", handle)
ask("identity.announce", logicalAgentId="py-boss", endpointId="endpoint-py", harnessType="python")
was = ask("identity.resolve", label=sys.argv[2])["identity"]["endpointId"]
made = ask("invocation.create", targetAgentId=sys.argv[2], text="Write the notes")
print("invoked", made["flight"]["id"], flush=True)
while True:
    event = events.get(timeout=120)
    delivery = event["payload"]
    if delivery.get("invocationId") == made["invocation"]["id"] and "wake" in delivery:
        at = "where it was" if delivery.get("endpointId") == was else "elsewhere"
        print(delivery["wake"], at, delivery["status"], flush=True)
