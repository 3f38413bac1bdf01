// POSTs a body, signed by the libraries of Standard Webhooks and of GitHub.
// usage: send.mjs standard|github URL SECRET ID BODY
import { sign } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";

const [how, url, secret, id, body] = process.argv.slice(2);
const now = new Date();
const headers =
  how === "standard"
    ? { "webhook-id": id, "webhook-timestamp": String(Math.floor(now / 1000)), "webhook-signature": new Webhook(secret).sign(id, now, body) }
    : { "X-GitHub-Delivery": id, "X-GitHub-Event": "push", "X-Hub-Signature-256": await sign(secret, body) };
const answer = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body });
console.log(`${await answer.text()} ${answer.status}`);
