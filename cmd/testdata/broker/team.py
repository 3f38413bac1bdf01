"""A program of somebody else's that works by the broker, written from `hubbub help broker` and
asyncapi.json alone: an agent that gives out work, and one that does it.

usage: team.py BUS [NAME]

It prints each step as a line, and ends with the work. NAME tells runs apart.
"""

import itertools
import queue
import sys

from bus import Bus

NAME = sys.argv[2] if len(sys.argv) > 2 else "py"


class Member:
    """One agent: it announces itself, asks the broker, and is woken."""

    def __init__(self, name):
        self.name, self.answers, self.wakes, self.seen = name, queue.Queue(), queue.Queue(), set()
        self.requests = itertools.count(1)
        self.bus = Bus(sys.argv[1], "agent:" + name, self.handle)
        self.ask("identity.announce", logicalAgentId=name, endpointId="endpoint-" + name, harnessType="python")

    def handle(self, topic, m):
        content = m["content"]
        if m["from"] != "collab:broker":
            return
        if m["type"] == "collab_result":
            self.answers.put(content)
        elif content["type"] == "collab.delivery.woken" and content["payload"]["deliveryId"] not in self.seen:
            self.seen.add(content["payload"]["deliveryId"])
            self.wakes.put(content["payload"])

    def ask(self, method, **params):
        request = f"{self.name}-{next(self.requests)}"
        self.bus.send("collab:broker", "collab_request", {"method": method, "params": params, "requestId": request})
        while (answer := self.answers.get(timeout=60))["requestId"] != request:
            pass
        if not answer["ok"]:
            raise SystemExit(f"{method}: {answer['error']}")
        return answer["result"]

    def woken(self, reminded):
        """Returns the next wake, which is a reminder or is not. A slow machine brings other reminders."""
        while True:
            wake = self.wakes.get(timeout=120)
            self.ask("delivery.ack", id=wake["deliveryId"])
            if wake.get("sweep", False) == reminded:
                return wake


def step(what, *more):
    print(what, *more, flush=True)


def work(worker, wake, output):
    flight = wake["flight"]["id"]
    worker.ask("flight.update", id=flight, state="running")
    worker.ask("flight.update", id=flight, state="completed", output=output)


boss, worker = Member(NAME + "-boss"), Member(NAME + "-worker")
item = boss.ask("work_item.create", title="Write the notes", ownerId=boss.bus.identity, nextMoveOwnerId=boss.bus.identity,
                requestedById=boss.bus.identity)["work_item"]
step("created", item["id"], item["state"])
item = boss.ask("work_item.update", id=item["id"], ownerId="@" + worker.name, nextMoveOwnerId="@" + worker.name)["work_item"]
step("assigned", item["ownerIdentity"])
boss.ask("invocation.create", targetAgentId="@" + worker.name, text="Write the notes", workItemId=item["id"])
why = boss.ask("wake.explain", workItemId=item["id"])
step("woken", why["outcome"], why["targetAgentId"], why["rule"], why["reason"])
work(worker, worker.woken(reminded=False), "too long")
item = boss.ask("work_item.get", id=item["id"])["work_item"]
step("review", item["state"], item["acceptanceState"], item["nextMoveOwnerIdentity"])
reminder = boss.woken(reminded=True)
step("reminded", reminder["rule"], reminder["sweep"], reminder["workItem"]["id"], reminder["reason"])
boss.ask("work_item.update", id=item["id"], state="working", acceptanceState="rejected", nextMoveOwnerId=worker.bus.identity)
boss.ask("invocation.create", targetAgentId=worker.bus.identity, text="Shorter, please", workItemId=item["id"])
work(worker, worker.woken(reminded=False), "short")
item = boss.ask("work_item.update", id=item["id"], state="done", acceptanceState="accepted")["work_item"]
step("closed", item["id"], item["state"], item["acceptanceState"])
