"""A person in Matrix, on the library nio, for scripts/test-matrix.

Usage: person.py HOMESERVER USER PASSWORD [FOLDER]. Each line of standard input is a request in
JSON, and each line of standard output an event that the person sees, or the result of a request.
With a folder for keys, the person reads and writes in encrypted rooms.
"""
import asyncio
import base64
import io
import json
import sys

from nio import AsyncClient, AsyncClientConfig, Event, InviteMemberEvent, ReceiptEvent, TypingNoticeEvent
from nio.crypto import decrypt_attachment


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
            sent = await client.room_send(
                room, ask.get("type", "m.room.message"), ask["content"], ignore_unverified_devices=True)
            return sent.event_id
        case "redact":
            return (await client.room_redact(room, ask["event"])).event_id
        case "typing":
            await client.room_typing(room, True, 5000)
        case "read":
            await client.room_read_markers(room, ask["event"], ask["event"])
        case "upload":
            data = base64.b64decode(ask["data"])
            kept, keys = await client.upload(
                io.BytesIO(data), ask["type"], ask["name"], encrypt=ask.get("encrypt", False), filesize=len(data))
            return json.dumps({**keys, "url": kept.content_uri}) if keys else kept.content_uri
        case "download":
            data = (await client.download(ask["uri"])).body
            if file := ask.get("file"):
                data = decrypt_attachment(data, file["key"]["k"], file["hashes"]["sha256"], file["iv"])
            return base64.b64encode(data).decode()
        case "rename":
            await client.set_displayname(ask["name"])
        case "join":
            await client.join(room)
        case "invite":
            await client.room_invite(room, ask["user"])
        case "lock":  # send a message before its key
            olm = client.olm
            olm.create_outbound_group_session(room)
            users, client.late = olm.share_group_session(
                room, list(client.rooms[room].users), ignore_unverified_devices=True)
            olm.outbound_group_sessions[room].shared = True
            return (await client.room_send(room, "m.room.message", ask["content"])).event_id
        case "unlock":
            await client.send(
                "PUT", "/_matrix/client/v3/sendToDevice/m.room.encrypted/late", json.dumps(client.late),
                {"Authorization": "Bearer " + client.access_token, "Content-Type": "application/json"})
        case "call":  # what nio has no method for
            said = await client.send(
                ask["method"], ask["path"], json.dumps(ask["body"]),
                {"Authorization": "Bearer " + client.access_token, "Content-Type": "application/json"})
            return await said.text()
    return ""


async def main():
    client = AsyncClient(sys.argv[1], sys.argv[2])
    if len(sys.argv) > 4:
        client = AsyncClient(
            sys.argv[1], sys.argv[2], store_path=sys.argv[4], config=AsyncClientConfig(encryption_enabled=True))
    await client.login(sys.argv[3])

    async def on_event(room, event):
        show(room=room.room_id, event=event.source, encrypted=event.decrypted)

    async def on_ephemeral(room, event):
        if isinstance(event, TypingNoticeEvent):
            for user in event.users:
                show(room=room.room_id, event={"type": "m.typing", "sender": user})
            return
        for one in event.receipts:
            show(room=room.room_id, event={"type": "m.receipt", "sender": one.user_id, "event_id": one.event_id})

    async def on_invite(room, event):
        await client.join(room.room_id)

    await client.sync(timeout=0, full_state=True)
    await keep_keys(client)
    client.add_event_callback(on_event, Event)
    client.add_event_callback(on_invite, InviteMemberEvent)
    client.add_ephemeral_callback(on_ephemeral, (ReceiptEvent, TypingNoticeEvent))
    syncing = asyncio.create_task(sync(client))
    lines = asyncio.StreamReader(limit=1 << 24)
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


async def keep_keys(client):
    if not client.olm:
        return
    await client.send_to_device_messages()
    if client.should_upload_keys:
        await client.keys_upload()
    if client.should_query_keys:
        await client.keys_query()
    if client.should_claim_keys:
        await client.keys_claim(client.get_users_for_key_claiming())


async def sync(client):
    while True:
        try:
            await client.sync(timeout=10000)
            await keep_keys(client)
        except Exception as error:
            print(error, file=sys.stderr, flush=True)
            await asyncio.sleep(0.2)


asyncio.run(main())
