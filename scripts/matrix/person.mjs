// A person in Matrix, on the library and the cryptography of Element Web, for scripts/test-matrix.
// It trusts only devices that their accounts have signed. Usage and protocol are those of person.py.
import { createInterface } from "node:readline";
import { createClient, Preset } from "matrix-js-sdk";
import { OnlySignedDevicesIsolationMode } from "matrix-js-sdk/lib/crypto-api/index.js";

const [baseUrl, userId, password, folder] = process.argv.slice(2);
const show = (members) => process.stdout.write(JSON.stringify(members) + "\n");
const nothing = () => {};
const logger = { trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing, getChild: () => logger };

const identifier = { type: "m.id.user", user: userId };
const login = await createClient({ baseUrl, logger }).login("m.login.password", { identifier, password });
const client = createClient({ baseUrl, userId, accessToken: login.access_token, deviceId: login.device_id, logger });
if (folder) {
  await client.initRustCrypto({ useIndexedDB: false });
  const crypto = client.getCrypto();
  crypto.setDeviceIsolationMode(new OnlySignedDevicesIsolationMode());
  await crypto.bootstrapCrossSigning({
    setupNewCrossSigning: true,
    authUploadDeviceSigningKeys: (upload) => upload({ type: "m.login.password", identifier, password }),
  });
}

async function showEvent(event) {
  if (event.status !== null || event.isDecryptionFailure() || event.getType() === "m.room.encrypted") return;
  if (event.isEncrypted()) { // a message with a warning does not count as seen
    const { shieldColour } = await client.getCrypto().getEncryptionInfoForEvent(event);
    if (shieldColour !== 0) return;
  }
  const content = { ...event.getOriginalContent(), "m.relates_to": event.getWireContent()["m.relates_to"] };
  const seen = { type: event.getType(), sender: event.getSender(), event_id: event.getId(), content };
  show({ room: event.getRoomId(), event: seen, encrypted: event.isEncrypted() });
}
client.on("event", showEvent);
client.on("Event.decrypted", showEvent);
client.on("RoomMember.typing", (_, member) => {
  if (member.typing) show({ room: member.roomId, event: { type: "m.typing", sender: member.userId } });
});
client.on("Room.receipt", (event, room) => {
  for (const [id, kinds] of Object.entries(event.getContent())) {
    for (const user of Object.keys(kinds["m.read"] ?? {})) {
      show({ room: room.roomId, event: { type: "m.receipt", sender: user, event_id: id } });
    }
  }
});

async function perform(ask) {
  switch (ask.do) {
    case "create":
      return (await client.createRoom({
        name: ask.name, is_direct: ask.direct, invite: ask.invite, initial_state: ask.state, preset: Preset.PrivateChat,
      })).room_id;
    case "send":
      return (await client.sendEvent(ask.room, ask.type ?? "m.room.message", ask.content)).event_id;
    case "redact":
      return (await client.redactEvent(ask.room, ask.event)).event_id;
    case "typing":
      await client.sendTyping(ask.room, true, 5000);
      return "";
    case "read":
      await client.sendReadReceipt(client.getRoom(ask.room).findEventById(ask.event));
      return "";
  }
  throw new Error("unknown request " + ask.do);
}

await client.startClient({ initialSyncLimit: 1 });
await new Promise((ready) => client.on("sync", (state) => state === "PREPARED" && ready()));
process.stderr.write("ready\n");
for await (const line of createInterface({ input: process.stdin })) {
  const ask = JSON.parse(line);
  for (let attempt = 0; attempt < 300; attempt++) { // the homeserver may be restarting
    try {
      show({ answer: await perform(ask) });
      break;
    } catch (error) {
      process.stderr.write(error + "\n");
      await new Promise((later) => setTimeout(later, 200));
    }
  }
}
