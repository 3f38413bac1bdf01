// A client of the A2A project's JavaScript SDK, for scripts/test-a2a. It calls the Chorus
// gateway at a URL with the secret of an inbox by one of the protocol's bindings, and writes what
// came, a line each.
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";
import { Role, TaskState } from "@a2a-js/sdk";

const [url, secret, binding] = process.argv.slice(2);
const clientWith = (token) => new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
  preferredTransports: [binding],
  transports: [new (binding === "HTTP+JSON" ? RestTransportFactory : JsonRpcTransportFactory)({
    fetchImpl: (to, init) => fetch(to, { ...init, headers: { ...Object.fromEntries(new Headers(init?.headers)), authorization: `Bearer ${token}` } }),
  })],
})).createFromUrl(url);
const request = (id, text, returnImmediately = false) => ({
  tenant: "", metadata: undefined, configuration: { acceptedOutputModes: [], historyLength: undefined, taskPushNotificationConfig: undefined, returnImmediately },
  message: {
    messageId: id, contextId: "js", taskId: "", role: Role.ROLE_USER, metadata: undefined, extensions: [], referenceTaskIds: [],
    parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "text/plain" }],
  },
});
const textOf = (artifact) => artifact.parts.map((p) => p.content.value).join("");
const show = (...words) => console.log(words.join(" ").replaceAll("\n", " "));

const client = await clientWith(secret);
const task = await client.sendMessage(request("js-1", "hello"));
show("task", TaskState[task.status.state], ...task.artifacts.map(textOf));
show("got", TaskState[(await client.getTask({ tenant: "", id: task.id, historyLength: undefined })).status.state]);
for await (const { payload } of client.sendMessageStream(request("js-2", "is it done?"))) {
  const { $case, value } = payload;
  if ($case === "artifactUpdate") show("artifact", textOf(value.artifact));
  if ($case === "statusUpdate" && value.status.state === TaskState.TASK_STATE_COMPLETED) show("status", TaskState[value.status.state]);
}
const open = await client.sendMessage(request("js-3", "look at it later", true));
show("cancel", TaskState[(await client.cancelTask({ tenant: "", id: open.id, metadata: undefined })).status.state]);
try {
  await (await clientWith("sk_wrong")).sendMessage(request("js-4", "hello"));
} catch (e) {
  show("refused", /401|send the secret of an inbox/.test(String(e)) ? "401" : String(e));
}
