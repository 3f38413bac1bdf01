// An agent of the A2A project's JavaScript SDK, for scripts/test-a2a. It streams what it heard
// back; "wait" lasts until it is cancelled.
import express from "express";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from "@a2a-js/sdk/server/express";
import { TaskState } from "@a2a-js/sdk";

const [port, binding] = process.argv.slice(2);
const url = `http://127.0.0.1:${port}`;
const card = {
  name: "JavaScript", description: "says what it hears", version: "1.0.0",
  supportedInterfaces: [{ url: `${url}/${binding}`, protocolBinding: binding === "rest" ? "HTTP+JSON" : "JSONRPC", protocolVersion: "1.0", tenant: "" }],
  capabilities: { streaming: true, pushNotifications: false, extensions: [] }, defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"],
  skills: [], securitySchemes: {}, securityRequirements: [], signatures: [], provider: undefined,
};
const part = (text) => ({ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "text/plain" });

const waiting = new Map();
class Executor {
  async execute(context, bus) {
    const { taskId, contextId, userMessage } = context;
    const prompt = userMessage.parts.map((p) => p.content.value).join("");
    const words = prompt.match(/<<(\w+)\n([^]*)\n\1>>/)?.[2] ?? prompt; // between the lines of its fence
    const status = (state) => bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: { state, message: undefined, timestamp: new Date().toISOString() }, metadata: undefined }));
    const say = (text, append) => bus.publish(AgentEvent.artifactUpdate({
      taskId, contextId, append, lastChunk: append, metadata: undefined,
      artifact: { artifactId: "answer", name: "", description: "", parts: [part(text)], metadata: undefined, extensions: [] },
    }));
    bus.publish(AgentEvent.task({ id: taskId, contextId, status: { state: TaskState.TASK_STATE_SUBMITTED, message: undefined, timestamp: new Date().toISOString() }, artifacts: [], history: [userMessage], metadata: undefined }));
    status(TaskState.TASK_STATE_WORKING);
    console.error(`heard ${JSON.stringify(words)}`);
    console.error(`received ${JSON.stringify(prompt)}`);
    if (words === "wait") {
      await new Promise((stop) => waiting.set(taskId, stop));
      console.error("cancelled");
      status(TaskState.TASK_STATE_CANCELED);
    } else {
      say("I heard ", false);
      say(words, true);
      status(TaskState.TASK_STATE_COMPLETED);
    }
    bus.finished();
  }
  async cancelTask(taskId) {
    waiting.get(taskId)?.();
  }
}

const handler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Executor());
const app = express();
app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: handler }));
app.use("/rpc", jsonRpcHandler({ requestHandler: handler, userBuilder: UserBuilder.noAuthentication }));
app.use("/rest", restHandler({ requestHandler: handler, userBuilder: UserBuilder.noAuthentication }));
app.listen(Number(port), "127.0.0.1", () => console.error("ready"));
