"""A collaboration broker of somebody else's, written from `hubbub help broker` and asyncapi.json alone.

usage: broker.py BUS

It keeps everything in memory, and has the methods that `hubbub conformance broker` asks for.
"""

import itertools
import re
import sys
import threading
import time

from bus import Bus, now

PEOPLE = ("tg", "chorus", "cli")
MOVES = {
    "work_item": {
        "open": ("working", "waiting", "review", "done", "cancelled"), "working": ("waiting", "review", "done", "cancelled"),
        "waiting": ("working", "review", "done", "cancelled"), "review": ("working", "done", "cancelled"),
        "done": ("open",), "cancelled": ("open",),
    },
    "question": {"open": ("answered", "closed", "declined"), "answered": ("closed", "open"), "closed": (), "declined": ()},
    "flight": {
        "queued": ("waking", "running", "waiting", "completed", "failed", "cancelled"),
        "waking": ("running", "waiting", "completed", "failed", "cancelled"), "running": ("waiting", "completed", "failed", "cancelled"),
        "waiting": ("running", "completed", "failed", "cancelled"), "completed": (), "failed": (), "cancelled": (),
    },
}
ENDED = ("done", "cancelled", "closed", "declined")
PARTIES = ("ownerId", "nextMoveOwnerId", "requestedById", "masterId", "askedOfId", "agentId", "targetAgentId")


class Refusal(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


endpoints, conversations, messages, records, invocations, flights, deliveries, bindings, claims, decisions = ({} for _ in range(10))
answers = {}  # to requests that were made, by from and requestId
wakes = []  # to be sent behind the answer
numbers, tokens = itertools.count(1), itertools.count(1)


def mint(prefix):
    return f"{prefix}{next(numbers)}"


def person(identity):
    return identity.partition(":")[0] in PEOPLE


def name_of(identity):
    family, _, name = identity.partition(":")
    return name.partition(".")[0] if family == "cli" else name


def known(table, kind, key):
    if key not in table:
        raise Refusal("not_found", f"there is no {kind} {key}")
    return table[key]


def resolve(label):
    """Returns the identity that a label, a bare name or an identity means, and the endpoints of it."""
    name = label.removeprefix("@")
    if ":" in name:
        return name, [e for e in endpoints.values() if e["identity"] == name]
    named = [e for e in endpoints.values() if e["logicalAgentId"] == name]
    if not named:
        raise Refusal("unknown_target", f"nobody announced the name {label}")
    return named[-1]["identity"], named


def party(record, field, label):
    identity = resolve(label)[0] if label.startswith("@") else label if ":" in label else "agent:" + label
    record[field], record[field.removesuffix("Id") + "Identity"] = name_of(identity), identity


def take(record, params, fields):
    for field in fields:
        if field in params:
            if field in PARTIES and params[field]:
                party(record, field, params[field])
            else:
                record[field] = params[field]


def decide(candidates, sender):
    """Takes the first candidate (rule, identity, reason) that is not the sender."""
    decision = {"rule": "none", "outcome": "nobody", "candidates": [], "reason": "nobody is responsible"}
    for rule, identity, reason in candidates:
        if identity:
            chosen = decision["rule"] == "none" and identity != sender
            decision["candidates"].append({"agentId": name_of(identity), "identity": identity, "rule": rule, "chosen": chosen, "reason": reason})
            if chosen:
                decision |= {"rule": rule, "targetAgentId": name_of(identity), "targetIdentity": identity, "reason": f"{name_of(identity)}: {reason}"}
    if "targetIdentity" in decision and not person(decision["targetIdentity"]):
        decision["outcome"] = "unavailable"
        for e in endpoints.values():
            if e["identity"] == decision["targetIdentity"] and e["status"] == "online" and e["wakePolicy"] == "auto":
                decision |= {"outcome": "woken", "endpointId": e["endpointId"]}
    return decision


def summary(decision):
    return {k: decision[k] for k in ("targetAgentId", "targetIdentity", "endpointId", "rule", "candidates", "reason")} if decision["outcome"] == "woken" else None


def deliver(decision, sender, about):
    """Stores a delivery, and wakes its agent now or when it comes."""
    d = {
        "id": mint("dlv_"), "targetAgentId": decision["targetAgentId"], "targetIdentity": decision["targetIdentity"], "status": "pending",
        "wake": "wanted", "reason": "mention", "policy": "must_ack", "attempts": 0, "createdAt": now(), "updatedAt": now(),
    }
    deliveries[d["id"]] = d
    woken = {"deliveryId": d["id"], **{k: decision[k] for k in ("targetAgentId", "targetIdentity", "rule", "reason", "candidates")}, **about,
             "senderId": name_of(sender), "senderIdentity": sender, "senderKind": "human" if person(sender) else "agent"}
    d["event"] = {"id": mint("evt_"), "type": "collab.delivery.woken", "source": "collab:broker", "target": "agent:" + d["targetAgentId"], "payload": woken}
    if decision["outcome"] == "woken":
        wake(d, decision["endpointId"])
    return shown(d)


def wake(d, endpoint):
    d["wake"], d["endpointId"] = "woken", endpoint
    d["event"]["payload"]["endpointId"] = endpoint
    wakes.append((d["targetIdentity"], d["event"]))


def shown(d):
    return {k: v for k, v in d.items() if k != "event"}


def move(kind, record, state):
    if state != record["state"] and state not in MOVES[kind][record["state"]]:
        raise Refusal("bad_transition", f"a {kind} cannot go from {record['state']} to {state}")
    record["state"] = state


def checked(record):
    if not record.get("title"):
        raise Refusal("invalid", "collaboration title is required")
    if record["state"] not in ENDED:
        if record["kind"] == "work_item" and not record.get("ownerId"):
            raise Refusal("invalid", "non-terminal work items require ownerId")
        if not record.get("nextMoveOwnerId"):
            raise Refusal("invalid", "non-terminal collaboration records require nextMoveOwnerId")
    if record["state"] == "waiting" and not record.get("waitingOn"):
        raise Refusal("invalid", "waiting work items require waitingOn")
    return record


WORK = ("title", "summary", "ownerId", "nextMoveOwnerId", "requestedById", "parentId", "conversationId", "priority", "acceptanceState", "waitingOn")


def work_create(sender, p):
    w = {"id": p.get("id") or mint("wi_"), "kind": "work_item", "state": p.get("state", "open"), "acceptanceState": "none",
         "createdById": name_of(sender), "createdByIdentity": sender, "createdAt": now(), "updatedAt": now()}
    take(w, p, WORK)
    records[w["id"]] = checked(w)
    return with_wake({"work_item": w}, w, sender, p.get("wake"))


def with_wake(result, record, sender, wanted):
    if wanted and record["state"] not in ENDED:
        decision = decisions[record["id"]] = decide(
            (("next_move_owner", record.get("nextMoveOwnerIdentity"), "has the next move on " + record["id"]),
             ("owner", record.get("ownerIdentity"), "owns " + record["id"])), sender)
        result |= {"decision": decision, "wake": summary(decision)}
        if decision["outcome"] in ("woken", "unavailable"):
            result["delivery"] = deliver(decision, sender, {"workItem" if record["kind"] == "work_item" else "question": record})
    return result


def work_update(sender, p):
    old = known(records, "work item", p["id"])
    concerned = [old.get(k) for k in ("createdByIdentity", "ownerIdentity", "nextMoveOwnerIdentity")]
    if not person(sender) and sender not in concerned:
        raise Refusal("forbidden", f"{sender} is neither creator, owner nor next mover of {p['id']}")
    w = dict(old)
    take(w, p, WORK)
    judges = w["acceptanceState"] in ("accepted", "rejected") and w["acceptanceState"] != old["acceptanceState"]
    reviewers = {old.get("requestedByIdentity"), old.get("nextMoveOwnerIdentity")} - {None, old.get("ownerIdentity")}
    if judges and reviewers and not person(sender) and sender not in reviewers:
        raise Refusal("forbidden", f"{sender} does not review {p['id']}")
    move("work_item", w, p.get("state", w["state"]))
    w["updatedAt"] = now()
    records[w["id"]] = checked(w)
    return with_wake({"work_item": w}, w, sender, p.get("wake"))


def ask(sender, p):
    q = {"id": p.get("id") or mint("q_"), "kind": "question", "title": p.get("title"), "state": "open", "acceptanceState": "none",
         "createdById": name_of(sender), "createdByIdentity": sender, "askedById": name_of(sender), "askedByIdentity": sender,
         "createdAt": now(), "updatedAt": now()}
    take(q, {"askedOfId": p["askedOfId"], "nextMoveOwnerId": p.get("nextMoveOwnerId", p["askedOfId"])}, ("askedOfId", "nextMoveOwnerId"))
    records[q["id"]] = checked(q)
    return with_wake({"question": q}, q, sender, True)


def answer(sender, p):
    q = known(records, "question", p["id"])
    if not person(sender) and sender != q["askedOfIdentity"]:
        raise Refusal("forbidden", f"question {p['id']} is for {q['askedOfId']} to answer")
    if not p.get("answer", "").strip():
        raise Refusal("invalid", "answered questions require an answer")
    if q["state"] == "answered" and q["answer"] != p["answer"]:
        raise Refusal("bad_transition", f"question {q['id']} is answered already")
    move("question", q, "answered")
    q["answer"], q["updatedAt"] = p["answer"], now()
    party(q, "nextMoveOwnerId", q["createdByIdentity"])
    return with_wake({"question": q}, q, sender, True)


def close(sender, p):
    q = known(records, "question", p["id"])
    move("question", q, "closed")
    q["nextMoveOwnerId"] = ""
    return {"question": q}


def spawn(sender, p):
    q = known(records, "question", p["id"])
    if "spawnedWorkItemId" not in q:
        owner = p.get("ownerId", q["askedOfIdentity"])
        made = work_create(sender, {"title": p.get("title", q["title"]), "parentId": q["id"], "ownerId": owner,
                                    "nextMoveOwnerId": p.get("nextMoveOwnerId", owner), "requestedById": q["createdByIdentity"]})
        q["spawnedWorkItemId"] = made["work_item"]["id"]
    return {"question": q, "work_item": records[q["spawnedWorkItemId"]]}


def announce(sender, p):
    if person(sender):
        raise Refusal("forbidden", "nobody announces a person")
    for old in endpoints.values():
        if old["identity"] == sender:
            old["status"] = "offline"
    e = endpoints[p["endpointId"]] = {
        "wakePolicy": "auto", "harnessType": "", "workspaceId": "", "roles": [], **p, "identity": sender, "status": "online",
        "logicalAgentId": p.get("logicalAgentId") or name_of(sender), "announcedAt": now(), "lastHeartbeatAt": now(),
    }
    for d in deliveries.values():
        if d["targetIdentity"] == sender and d["status"] == "pending" and d["wake"] == "wanted" and e["wakePolicy"] == "auto":
            wake(d, e["endpointId"])
    return {"identity": e}


def leave(sender, p):
    e = known(endpoints, "endpoint", p["endpointId"])
    e["status"] = "offline"
    return {"identity": e}


def converse(sender, p):
    c = {"id": p.get("id") or mint("conv_"), "kind": p["kind"], "title": p.get("title", ""), "createdById": name_of(sender),
         "createdByIdentity": sender, "createdAt": now()}
    take(c, p, ("masterId", "memberIds"))
    conversations[c["id"]] = c
    return {"conversation": c}


LABEL = re.compile(r"(?<![\w@/])@[\w-]+")


def post(sender, p):
    c = known(conversations, "conversation", p["conversationId"])
    surface = "human" if person(sender) and p.get("surface", "human") == "human" else "agent"
    m = {"id": p.get("id") or mint("msg_"), "conversationId": c["id"], "authorId": name_of(sender), "authorIdentity": sender,
         "surface": surface, "kind": p.get("kind", "chat"), "text": p["text"], "createdAt": now(), "mentions": []}
    named, failed, end = list(p.get("targets", [])), None, 0
    for label in LABEL.finditer(p["text"]):
        hard = surface == "human" and not p["text"][end:label.start()].strip(" ,;:\n")
        end = label.end() if hard else -1
        try:
            identity = resolve(label.group())[0]
            m["mentions"].append({"label": label.group(), "agentId": name_of(identity), "identity": identity, "hard": hard})
        except Refusal:
            m["mentions"].append({"label": label.group(), "hard": hard})
        if hard:
            named.append(label.group())
    messages[m["id"]] = m
    candidates = []
    for label in named:
        try:
            candidates.append(("explicit_mention", resolve(label)[0], "was named explicitly"))
        except Refusal as e:
            failed = failed or e
    if failed:
        raise failed
    if m["kind"] == "chat":
        candidates.append(("conversation_master", c.get("masterIdentity"), "answers for the conversation"))
    decision = decisions[m["id"]] = decide(candidates, sender)
    result = {"message": m, "mentions": m["mentions"], "deliveries": [], "wake": summary(decision)}
    if decision["outcome"] in ("woken", "unavailable"):
        result["deliveries"].append(deliver(decision, sender, {"message": m}))
    if decision["outcome"] == "unavailable":
        raise Refusal("unavailable", decision["reason"])
    return result


def invoke(sender, p):
    identity, _ = resolve(p["targetAgentId"])
    i = {"id": p.get("id") or mint("inv_"), "requestedById": name_of(sender), "requestedByIdentity": sender, "targetAgentId": name_of(identity),
         "targetIdentity": identity, "text": p["text"], "workItemId": p.get("workItemId", ""), "flightId": mint("flt_"), "createdAt": now()}
    decision = decide((("explicit_mention", identity, "was invoked"),), "")
    f = {"id": i["flightId"], "invocationId": i["id"], "targetAgentId": i["targetAgentId"], "targetIdentity": identity,
         "requestedByIdentity": sender, "workItemId": i["workItemId"], "state": "waking" if decision["outcome"] == "woken" else "queued"}
    invocations[i["id"]], flights[f["id"]] = i, f
    d = deliver(decision, sender, {"invocation": i, "flight": f})
    return {"invocation": i, "flight": f, "delivery": d, "decision": decision, "wake": summary(decision)}


def fly(sender, p):
    f = known(flights, "flight", p["id"])
    if not person(sender) and sender != f["targetIdentity"]:
        raise Refusal("forbidden", f"flight {p['id']} is flown by {f['targetAgentId']}")
    move("flight", f, p["state"])
    take(f, p, ("output", "error"))
    w = records.get(f["workItemId"])
    if f["state"] == "completed" and w and w["state"] not in ENDED:
        w |= {"state": "review", "acceptanceState": "pending"}
        party(w, "nextMoveOwnerId", w.get("requestedByIdentity") or f["requestedByIdentity"])
    return {"flight": f}


def ack(sender, p):
    d = known(deliveries, "delivery", p["id"])
    if not person(sender) and sender != d["targetIdentity"]:
        raise Refusal("forbidden", f"delivery {p['id']} is for {d['targetAgentId']}")
    d["status"] = "acknowledged"
    return {"delivery": shown(d)}


def explain(sender, p):
    decision = known(decisions, "decision about", p.get("messageId") or p.get("workItemId") or p.get("questionId"))
    return {**decision, "wake": summary(decision)}


def bind(sender, p):
    b = {"surface": p["surface"], "externalId": p["externalId"], "setByIdentity": sender, "updatedAt": now()}
    take(b, p, ("agentId",))
    b["identity"] = b.pop("agentIdentity")
    bindings[p["surface"], p["externalId"]] = b
    return {"binding": b}


def claim(sender, p):
    c = claims.get(p["eventId"])
    if c and c["state"] == "answered":
        return {"granted": False, "owner": c["owner"], "expiresAt": c["expiresAt"], "answered": True}
    if c and c["state"] == "held" and c["ownerIdentity"] != sender and c["until"] > time.time():
        c["refused"].add(sender)
        return {"granted": False, "owner": c["owner"], "expiresAt": c["expiresAt"]}
    if not c or c["state"] != "held" or c["ownerIdentity"] != sender:
        c = claims[p["eventId"]] = {"eventId": p["eventId"], "token": next(tokens), "refused": set()}
    c |= {"state": "held", "owner": name_of(sender), "ownerIdentity": sender, "until": time.time() + p.get("ttlMs", 60000) / 1000, "expiresAt": now()}
    return {"granted": True, "token": c["token"], "owner": c["owner"], "expiresAt": c["expiresAt"]}


def claim_shown(c):
    return {k: v for k, v in c.items() if k not in ("refused", "until")}


def release(sender, p):
    c = known(claims, "claim", p["eventId"])
    if c["state"] != "held" or c["ownerIdentity"] != sender or c["token"] != p.get("token", c["token"]):
        raise Refusal("conflict", f"the claim on {p['eventId']} is held by {c['owner']} with another token")
    c["state"] = "answered" if p.get("answered") else "offered"
    if c["state"] == "offered":
        for other in c["refused"]:
            wakes.append((other, {"id": mint("evt_"), "type": "collab.claim.offered", "source": "collab:broker",
                                  "target": "event:" + c["eventId"], "payload": claim_shown(c)}))
    return {"claim": claim_shown(c)}


METHODS = {
    "identity.announce": announce, "identity.leave": leave, "conversation.create": converse, "message.post": post,
    "question.ask": ask, "question.answer": answer, "question.close": close, "question.spawn_work": spawn,
    "work_item.create": work_create, "work_item.update": work_update,
    "work_item.get": lambda sender, p: {"work_item": known(records, "work item", p["id"])},
    "invocation.create": invoke, "flight.update": fly, "delivery.ack": ack, "wake.explain": explain, "binding.set": bind,
    "binding.get": lambda sender, p: {"binding": known(bindings, "binding", (p["surface"], p["externalId"]))},
    "claim.acquire": claim, "claim.release": release, "claim.decline": lambda sender, p: release(sender, {"eventId": p["eventId"]}),
}


def handle(topic, m):
    if topic != "collab:broker" or m["type"] != "collab_request":
        return
    content, sender = m["content"], m["from"]
    key = sender, content.get("requestId") or m["messageId"]
    if key not in answers:
        try:
            if content["method"] not in METHODS:
                raise Refusal("invalid", f"there is no method {content['method']}")
            answers[key] = {"requestId": key[1], "ok": True, "result": METHODS[content["method"]](sender, content["params"])}
        except Refusal as e:
            answers[key] = {"requestId": key[1], "ok": False, "error": {"code": e.code, "message": str(e)}}
        except (KeyError, TypeError, AttributeError) as e:
            answers[key] = {"requestId": key[1], "ok": False, "error": {"code": "invalid", "message": f"the params are not those of {content['method']}: {e}"}}
    bus.send(sender, "collab_result", answers[key])
    while wakes:
        bus.send(*((wakes[0][0], "collab_event", wakes.pop(0)[1])))


bus = Bus(sys.argv[1], "collab:broker", handle, "collab:*")
print("ready", flush=True)
threading.Event().wait()
