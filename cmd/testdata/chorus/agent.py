"""An HTTP agent, written from `hubbub help chorus` alone. It answers each message with one body of
NDJSON whose third line is no event, and prints what it is told about each line.
"""

import json
import os
import signal
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.wfile.flush()
        if "message" not in body:
            return
        events = [{"type": "tool_call", "name": "count", "args": {"to": 2}, "id": "1"}, {"type": "message", "content": "One."},
                  {"type": "message", "content": ""}, {"type": "message", "content": "Two."}, {"type": "tool_result", "id": "1", "content": "2"}]
        lines = "".join(json.dumps(event) + "\n" for event in events)
        request = urllib.request.Request(body["callback"], lines.encode(), {"Content-Type": "application/x-ndjson"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            print(answer.status, *(f"{r['line']}:{r['status']}:{r.get('error', '')}" for r in json.load(answer)["results"]), file=sys.stderr, flush=True)


server = HTTPServer(("127.0.0.1", 0), Handler)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
print(f"listening on {server.server_port}", file=sys.stderr, flush=True)
server.serve_forever()
