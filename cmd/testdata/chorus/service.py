"""A Chorus service: one channel, written from the protocol's text alone (version 0.1, sections 1 to 4).

usage: service.py PORT [CHANNEL]

People and the test use /studio: POST /studio/agents {"name", "connection", "to"}, POST /studio/say
{"sender", "content", "attachments"}, POST /studio/programs {"name", "kind"}, POST /studio/refuse {"content"}, GET /studio gives what was said, and what agents
did that the protocol does not have. Everything that is said goes to every agent but the one that said it, in
order; people may have an agent's name. A program answers at once what an agent here says, in new words; with a kind, its messages declare
it. What an agent says that has a "to" goes to that one alone, under another name and in a frame of
words. Words to refuse are answered 422 at a callback, and shown to nobody.
"""

import itertools
import json
import os
import queue
import secrets
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(sys.argv[1])
HERE = f"http://127.0.0.1:{PORT}"
CHANNEL = {"id": (sys.argv[2:] or ["ch_room"])[0], "name": "ops-team", "service": "Studio", "context": "The team uses this channel for ops coordination."}

lock = threading.Lock()  # guards the eight below
agents = {}  # the queue of each, by name
relays = {}  # to whom alone each is heard, by name
callbacks = {}  # who answers there, by token
programs = {}  # the kind of each, by name
said = []  # {"sender", "content"}
faults = []
refused = set()  # words
numbers = itertools.count(1)

EVENTS = {  # section 3: what each event has, and of which type
    "message": {"content": str},
    "tool_call": {"name": str, "args": dict, "id": str},
    "tool_result": {"id": str, "content": str},
    "status": {"status": str},
    "error": {"message": str},
}


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
    except OSError:
        return 599, ""


def deliver(name, connection, waiting):
    """Takes one agent's messages to its connection string, one after the other; 5xx is tried again (section 2)."""
    while True:
        message = waiting.get()
        with lock:
            token = secrets.token_urlsafe(16)
            callbacks[token] = name
        body = {"channel": CHANNEL, "message": message, "callback": f"{HERE}/channels/{CHANNEL['id']}/inbox/{token}"}
        status, why = post(connection, body)
        while status >= 500:
            time.sleep(0.1)
            status, why = post(connection, body)
        if status != 200:
            with lock:
                faults.append(f"{name} answers {status} to {message}: {why}")


def say(sender, content, attachments=None, person=False):
    with lock:
        said.append({"sender": sender, "content": content})
        message = {"id": f"msg_{next(numbers)}", "sender": sender, "content": content}
        if attachments is not None:
            message["attachments"] = attachments
        if to := None if person else relays.get(sender):
            message["sender"], message["content"] = "Studio Bot", f"**{content}** (sent from Studio)"
        if kind := programs.get(sender):
            message["senderKind"] = kind
        elif sender in agents and not person:
            for program in programs:
                threading.Thread(target=say, args=(program, f"And what of {secrets.token_hex(8)}?"), daemon=True).start()
        for name, waiting in agents.items():
            if (person or name != sender) and to in (None, name):
                waiting.put(message)


def take(name, event):
    """Takes what an agent POSTs to a callback, and returns the status of the answer."""
    members = EVENTS.get(event.get("type"))
    if members is None:  # section 3 has five types
        return 400
    for member, kind in members.items():
        if not isinstance(event.get(member), kind):
            with lock:
                faults.append(f"{name}: {json.dumps(event)} has no {member} of {kind.__name__}")
            return 400
    if event["type"] == "message":
        if event["content"] in refused:
            return 422
        say(name, event["content"])
    return 200


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value):
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def do_GET(self):
        with lock:
            self.answer(200, {"said": said, "faults": faults})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.path == "/studio/agents":
            waiting = queue.Queue()
            with lock:
                agents[body["name"]] = waiting
                relays[body["name"]] = body.get("to")
            threading.Thread(target=deliver, args=(body["name"], body["connection"], waiting), daemon=True).start()
            return self.answer(200, {})
        if self.path == "/studio/programs":
            with lock:
                programs[body["name"]] = body["kind"]
            return self.answer(200, {})
        if self.path == "/studio/refuse":
            refused.add(body["content"])
            return self.answer(200, {})
        if self.path == "/studio/say":
            say(body["sender"], body["content"], body.get("attachments"), person=True)
            return self.answer(200, {})
        with lock:
            name = callbacks.get(self.path.rpartition("/")[2])
            if "Authorization" in self.headers:  # section 4: the URL is all
                faults.append(f"{name} shows a credential to a callback")
        return self.answer(404 if name is None else take(name, body), {})


server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
print("ready", file=sys.stderr, flush=True)
server.serve_forever()
