"""A peer of Hubbub that echoes what it is told. It needs Python 3.10 and the package websockets,
10 or newer (pip install websockets, or apt-get install python3-websockets).

HUBBUB_BUS is the address of the bus, HUBBUB_TOKEN the token of the peer, if the bus wants one
(give hubbub the --config or --data of `hubbub up`, if it has one):

    hubbub token create agent:echo --identity agent:echo --subscribe agent:echo --publish 'cli:*' --publish 'tg:*'

`hubbub chat agent:echo hello` says hello to it. `hubbub help protocol` describes the wire.
"""
from __future__ import annotations

import asyncio
import datetime
import inspect
import json
import os
import random
import sys
import uuid
from typing import Any, Awaitable, Callable, TypedDict

from websockets import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

IDENTITY = "agent:echo"
BUS = os.environ.get("HUBBUB_BUS") or "ws://127.0.0.1:7892"
TOKEN = os.environ.get("HUBBUB_TOKEN", "")
MAX_FRAME = 4 << 20  # of the bus: --max-frame and the envelope
# From 15 on, websockets would send the token to the proxy of the environment. Older ones use none.
NO_PROXY: dict[str, Any] = {"proxy": None} if "proxy" in inspect.signature(connect).parameters else {}


class Refused(Exception):
    """The bus refused a request; sending it again would end alike."""


Message = TypedDict("Message", {"messageId": str, "type": str, "from": str, "timestamp": str, "content": dict[str, Any]})
Handler = Callable[[str, Message], Awaitable[None]]


class Bus:
    """One identity on the bus, over as many connections as it takes."""

    def __init__(self, handle: Handler) -> None:
        self.handle = handle
        self.ready = asyncio.Event()
        self.ws: Any = None
        self.waiting: dict[str, asyncio.Future[Any]] = {}
        self.last: asyncio.Task[None] | None = None  # works off what the connection before delivered
        self.seen: dict[str, None] = {}  # message ids that were handled; a sender that is unsure repeats them

    async def run(self) -> None:
        """Connects again and again, until another session takes the identity."""
        pause = 0.25
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self.session()
            except ConnectionClosed as e:
                if e.rcvd is not None and e.rcvd.code == 4001:
                    raise SystemExit(f"{IDENTITY} runs elsewhere, too: the newer one took over") from None
            except (OSError, Refused, WebSocketException) as e:
                advice = " (the bus does not know the token in HUBBUB_TOKEN)" if "401" in str(e) else ""
                print(f"{IDENTITY}: {BUS}: {e}{advice}", file=sys.stderr)
            if asyncio.get_running_loop().time() - began > 10:
                pause = 0.25
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, 10)

    async def send(self, topic: str, kind: str, content: dict[str, Any]) -> None:
        """Sends a message, over the next connection if need be, under the same message id."""
        payload: Message = {
            "messageId": str(uuid.uuid4()), "type": kind, "from": IDENTITY, "content": content,
            "timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat(),
        }
        while True:
            await self.ready.wait()
            try:
                result = await self.call("sendMessage", {"topic": topic, "payload": payload})
                if not result["deliveredTo"] and "failures" not in result:
                    print(f"{IDENTITY}: nobody listens to {topic}", file=sys.stderr)
                for f in result.get("failures", []):
                    print(f"{IDENTITY}: {f['peer']} did not take it: {f['status']} {f.get('error', '')}", file=sys.stderr)
                return
            except (ConnectionError, ConnectionClosed):
                await asyncio.sleep(0.05)

    async def session(self) -> None:
        protocols: Any = ["hubbub.bearer." + TOKEN] if TOKEN else None
        async with connect(BUS, subprotocols=protocols, max_size=MAX_FRAME, **NO_PROXY) as ws:
            self.ws = ws
            work: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
            tasks = [asyncio.create_task(self.work(ws, work)), asyncio.create_task(self.introduce(ws))]
            try:
                async for frame in ws:
                    m = json.loads(frame)
                    if m.get("method") == "processMessage":
                        work.put_nowait(m)
                    elif (f := self.waiting.pop(str(m.get("id")), None)) and not f.done():
                        if "error" in m:
                            f.set_exception(Refused(m["error"]["message"]))
                        else:
                            f.set_result(m.get("result"))
                if ws.close_code == 4001:
                    raise SystemExit(f"{IDENTITY} runs elsewhere, too: the newer one took over")
            finally:
                self.ready.clear()
                for f in self.waiting.values():
                    if not f.done():
                        f.set_exception(ConnectionError("the connection ended"))
                self.waiting.clear()
                tasks[1].cancel()
                work.put_nowait({})  # what was delivered is worked off
                await asyncio.gather(tasks[1], return_exceptions=True)
                self.last = tasks[0]

    async def introduce(self, ws: Any) -> None:
        try:
            await self.call("initialize", {"clientId": IDENTITY})
            await self.call("subscribe", {"topic": IDENTITY})
            self.ready.set()
        except Refused as e:
            print(f"{IDENTITY}: {e}", file=sys.stderr)
            await ws.close()

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        request = str(uuid.uuid4())
        self.waiting[request] = answer = asyncio.get_running_loop().create_future()
        await self.ws.send(json.dumps({"jsonrpc": "2.0", "id": request, "method": method, "params": params}))
        return await answer

    async def work(self, ws: Any, queue: asyncio.Queue[dict[str, Any]]) -> None:
        """Handles what was delivered, one after the other, also of the connection before."""
        if self.last is not None:
            await self.last
        while m := await queue.get():
            answer = await self.process(m["params"]["topic"], m["params"]["payload"])
            try:
                await ws.send(json.dumps({"jsonrpc": "2.0", "id": m["id"], **answer}))
            except ConnectionClosed:
                pass  # the sender knows that the connection ended

    async def process(self, topic: str, m: Message) -> dict[str, Any]:
        if m["messageId"] not in self.seen:
            try:
                await self.handle(topic, m)
            except Exception as e:  # whatever the handler did not mind
                print(f"{IDENTITY}: {e}", file=sys.stderr)
                return {"error": {"code": -32000, "message": str(e)}}
            self.seen[m["messageId"]] = None
            if len(self.seen) > 1000:
                del self.seen[next(iter(self.seen))]
        return {"result": {"processed": True}}


async def main() -> None:
    answers = {"tg_message": "tg_reply", "chat_message": "chat_reply"}  # of Telegram, of everybody else

    async def echo(_topic: str, m: Message) -> None:
        said = m["content"]
        by_agent = said.get("author", {}).get("kind") == "agent"  # two that answer each other never end
        if m["type"] in answers and said.get("text") and not by_agent:  # a reaction has no text
            await bus.send(m["from"], answers[m["type"]], {"text": said["text"], "inReplyTo": said.get("sourceId", m["messageId"])})

    bus = Bus(echo)
    await bus.run()


asyncio.run(main())
