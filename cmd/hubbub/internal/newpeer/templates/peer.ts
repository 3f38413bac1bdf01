// A peer of Hubbub that echoes what it is told. It needs nothing but the platform:
//   node peer.ts        (Node 22.18; before it: node --experimental-strip-types peer.ts)
//   deno run --allow-net --allow-env peer.ts, or bun peer.ts
// HUBBUB_BUS is the address of the bus, HUBBUB_TOKEN the token of the peer, if the bus wants one
// (give hubbub the --config or --data of `hubbub up`, if it has one):
//   hubbub token create agent:echo --identity agent:echo --subscribe agent:echo --publish 'cli:*' --publish 'tg:*'
// `hubbub chat agent:echo hello` says hello to it. `hubbub help protocol` describes the wire.
declare const process: { env: Record<string, string | undefined>; exit(code: number): never };

const identity: string = "agent:echo";
const address: string = process.env.HUBBUB_BUS ?? "ws://127.0.0.1:7892";
const token: string = process.env.HUBBUB_TOKEN ?? "";

interface Message<T = unknown> {
  messageId: string;
  type: string;
  from: string;
  timestamp: string;
  content: T;
}
interface ChatMessage { text?: string; sourceId?: string; author?: { kind?: string } }
interface Reply { text: string; inReplyTo?: string; idempotencyKey?: string }
interface Outcome { deliveredTo: number; failures?: { peer: string; status: string; error?: string }[] }
interface Frame {
  id?: string | number;
  method?: string;
  params?: { topic: string; payload: Message };
  result?: unknown;
  error?: { code: number; message: string };
}

class Refused extends Error {} // by the bus: sending it again would end alike

// A Bus is one identity on the bus, over as many connections as it takes.
class Bus {
  private ws?: WebSocket;
  private ready = Promise.withResolvers<void>();
  private waiting = new Map<string, { resolve(v: unknown): void; reject(e: Error): void }>();
  private work: Promise<void> = Promise.resolve(); // deliveries, one after the other
  private seen = new Set<string>(); // message ids that were handled; a sender that is unsure repeats them
  private handle: (topic: string, m: Message) => Promise<void>;

  constructor(handle: (topic: string, m: Message) => Promise<void>) { this.handle = handle; }

  // run connects again and again, until another session takes the identity.
  async run(): Promise<void> {
    for (let pause = 250; ; pause = Math.min(pause * 2, 10_000)) {
      const began = Date.now();
      const code = await this.connect();
      if (code === 4001) throw new Error(`${identity} runs elsewhere, too: the newer one took over`);
      if (Date.now() - began > 10_000) pause = 250;
      await new Promise((r) => setTimeout(r, pause * (0.5 + Math.random())));
    }
  }

  // send sends a message, over the next connection if need be, under the same message id.
  async send<T>(topic: string, type: string, content: T): Promise<void> {
    const payload: Message<T> = { messageId: crypto.randomUUID(), type, from: identity, timestamp: new Date().toISOString(), content };
    for (;;) {
      try {
        await this.ready.promise;
        const { deliveredTo, failures } = (await this.call("sendMessage", { topic, payload })) as Outcome;
        if (!deliveredTo && !failures) console.error(`${identity}: nobody listens to ${topic}`);
        for (const f of failures ?? []) console.error(`${identity}: ${f.peer} did not take it: ${f.status} ${f.error ?? ""}`);
        return;
      } catch (e) {
        if (e instanceof Refused) throw e;
      }
    }
  }

  private connect(): Promise<number> {
    return new Promise((ended) => {
      const ws = new WebSocket(address, token ? ["hubbub.bearer." + token] : []);
      this.ws = ws;
      ws.onopen = async () => {
        try {
          await this.call("initialize", { clientId: identity });
          await this.call("subscribe", { topic: identity });
          this.ready.resolve();
        } catch (e) {
          console.error(`${identity}: ${(e as Error).message}`);
          ws.close();
        }
      };
      ws.onmessage = ({ data }) => this.read(ws, JSON.parse(String(data)) as Frame);
      const end = (code: number) => {
        clearInterval(pulse);
        ws.onopen = ws.onmessage = ws.onclose = ws.onerror = null;
        this.ready.reject(new Error("the connection ended"));
        this.ready.promise.catch(() => {});
        this.ready = Promise.withResolvers<void>();
        for (const w of this.waiting.values()) w.reject(new Error("the connection ended"));
        this.waiting.clear();
        ended(code);
      };
      ws.onclose = ({ code }) => end(code);
      ws.onerror = () => { // Node says no more where there was no connection
        console.error(`${identity}: no connection to ${address}: does the bus run, and is HUBBUB_TOKEN right?`);
        end(1006);
      };
      let heard = true; // a network that broke says nothing
      const pulse = setInterval(() => {
        if (!heard) {
          end(1006);
          ws.close();
          return;
        }
        heard = false;
        if (ws.readyState === WebSocket.OPEN) this.call("ping", {}).then(() => (heard = true), () => {});
      }, 20_000);
    });
  }

  private call(method: string, params: unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const id = crypto.randomUUID();
      this.waiting.set(id, { resolve, reject });
      this.ws!.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  private read(ws: WebSocket, m: Frame): void {
    if (m.method === "processMessage" && m.params) {
      const { topic, payload } = m.params;
      this.work = this.work.then(async () => {
        const answer = await this.process(topic, payload);
        if (ws.readyState === WebSocket.OPEN) ws.send(JSON.stringify({ jsonrpc: "2.0", id: m.id, ...answer }));
      });
      return;
    }
    const w = this.waiting.get(String(m.id));
    this.waiting.delete(String(m.id));
    if (m.error) w?.reject(new Refused(m.error.message));
    else w?.resolve(m.result);
  }

  private async process(topic: string, m: Message): Promise<object> {
    if (this.seen.has(m.messageId)) return { result: { processed: true } };
    try {
      await this.handle(topic, m);
    } catch (e) {
      console.error(`${identity}: ${(e as Error).message}`);
      return { error: { code: -32000, message: (e as Error).message } };
    }
    this.seen.add(m.messageId);
    if (this.seen.size > 1000) this.seen.delete(this.seen.values().next().value!);
    return { result: { processed: true } };
  }
}

const answers = new Map([["tg_message", "tg_reply"], ["chat_message", "chat_reply"]]); // of Telegram, of everybody else
const bus = new Bus(async (_topic, m) => {
  const answer = answers.get(m.type), said = m.content as ChatMessage;
  if (!answer || !said.text) return; // a reaction has no text
  if (said.author?.kind === "agent") return; // two that answer each other never end
  await bus.send<Reply>(m.from, answer, { text: said.text, inReplyTo: said.sourceId ?? m.messageId });
});
bus.run().catch((e: Error) => {
  console.error(e.message);
  process.exit(1);
});
