"""One identity on a bus, written from `hubbub help protocol` alone, with Python's own library."""

import base64
import datetime
import json
import os
import queue
import socket
import struct
import threading
import urllib.parse
import uuid


class Refused(Exception):
    """The bus refused a request."""


class Bus:
    """Messages come to handle(topic, message) one after the other; what it sends goes out in order."""

    def __init__(self, url, identity, handle, topic=None):
        at = urllib.parse.urlparse(url)
        self.identity, self.handle = identity, handle
        self.socket = socket.create_connection((at.hostname, at.port or 80))
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((
            f"GET {at.path or '/'} HTTP/1.1\r\nHost: {at.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
        self.stream = self.socket.makefile("rb")
        if b" 101 " not in self.stream.readline():
            raise Refused("the bus speaks no WebSocket here")
        while self.stream.readline().strip():
            pass
        self.lock = threading.Lock()  # guards writing, and waiting
        self.waiting, self.came, self.outgoing = {}, queue.Queue(), queue.Queue()
        for run in (self.read, self.work, self.send_all):
            threading.Thread(target=run, daemon=True).start()
        self.call("initialize", {"clientId": identity})
        self.call("subscribe", {"topic": topic or identity})

    def write(self, opcode, payload):
        mask, n = os.urandom(4), len(payload)
        length = bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n) if n < 1 << 16 else b"\xff" + struct.pack(">Q", n)
        stretched = (mask * (n // 4 + 1))[:n]
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(stretched, "big")).to_bytes(n, "big")
        with self.lock:
            self.socket.sendall(bytes([0x80 | opcode]) + length + mask + masked)

    def frames(self):
        text = b""
        while head := self.stream.read(2):
            n = head[1] & 0x7F
            if n >= 126:
                n = int.from_bytes(self.stream.read(2 if n == 126 else 8), "big")
            payload, opcode = self.stream.read(n), head[0] & 0x0F
            if opcode == 8:
                return
            if opcode == 9:
                self.write(10, payload)
            elif opcode in (0, 1):
                text += payload
                if head[0] & 0x80:
                    yield json.loads(text)
                    text = b""

    def read(self):
        try:
            for frame in self.frames():
                if frame.get("method") == "processMessage":
                    self.came.put(frame)
                else:
                    with self.lock:
                        answer = self.waiting.pop(frame.get("id"), None)
                    if answer:
                        answer.put(frame)
        finally:
            os._exit(0)  # the bus is gone, and nothing is left to do

    def work(self):
        while True:
            frame = self.came.get()
            self.write(1, json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": {"processed": True}}).encode())
            self.handle(frame["params"]["topic"], frame["params"]["payload"])

    def call(self, method, params):
        request, answer = str(uuid.uuid4()), queue.Queue()
        with self.lock:
            self.waiting[request] = answer
        self.write(1, json.dumps({"jsonrpc": "2.0", "id": request, "method": method, "params": params}).encode())
        frame = answer.get(timeout=60)
        if "error" in frame:
            raise Refused(frame["error"]["message"])
        return frame["result"]

    def send(self, topic, kind, content):
        """Sends a message after those before it."""
        self.outgoing.put((topic, {
            "messageId": str(uuid.uuid4()), "type": kind, "from": self.identity, "content": content, "timestamp": now(),
        }))

    def send_all(self):
        while True:
            topic, payload = self.outgoing.get()
            try:
                self.call("sendMessage", {"topic": topic, "payload": payload})
            except Refused:
                pass  # nobody is there


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
