"""A person in Matrix, on the library nio, for scripts/test-matrix.

Usage: person.py HOMESERVER USER PASSWORD. Each line of standard input is a request in JSON, and
each line of standard output an event that the person sees, or the result of a request.
"""
import asyncio
import json
import sys

from nio import AsyncClient, Event, InviteMemberEvent


def show(**members):
    print(json.dumps(members), flush=True)


async def perform(client, ask):
    room = ask.get("room")
    match ask["do"]:
        case "create":
            made = await client.room_create(
                name=ask.get("name"), is_direct=ask.get("direct", False), invite=ask.get("invite", []),
                initial_state=ask.get("state", []))
            return made.room_id
        case "send":
            sent = await client.room_send(room, ask.get("type", "m.room.message"), ask["content"])
            return sent.event_id
        case "redact":
            return (await client.room_redact(room, ask["event"])).event_id
        case "typing":
            await client.room_typing(room, True, 5000)
        case "read":
            await client.room_read_markers(room, ask["event"], ask["event"])
    return ""


async def main():
    client = AsyncClient(sys.argv[1], sys.argv[2])
    await client.login(sys.argv[3])

    async def on_event(room, event):
        show(room=room.room_id, event=event.source)

    async def on_invite(room, event):
        await client.join(room.room_id)

    await client.sync(timeout=0, full_state=True)
    client.add_event_callback(on_event, Event)
    client.add_event_callback(on_invite, InviteMemberEvent)
    syncing = asyncio.create_task(sync(client))
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print("ready", file=sys.stderr, flush=True)
    while line := await lines.readline():
        ask = json.loads(line)
        for _ in range(300):  # the homeserver may be restarting
            try:
                show(answer=await perform(client, ask))
                break
            except Exception as error:
                print(error, file=sys.stderr, flush=True)
                await asyncio.sleep(0.2)
    syncing.cancel()
    await client.close()


async def sync(client):
    while True:
        try:
            await client.sync(timeout=10000)
        except Exception as error:
            print(error, file=sys.stderr, flush=True)
            await asyncio.sleep(0.2)


asyncio.run(main())
