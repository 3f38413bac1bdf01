// Opens the console through a proxy in a real browser: node proxy.js LINK BASE
"use strict";
const { chromium } = require("playwright-core");
const [link, base] = process.argv.slice(2);

async function main() {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run", "--disable-background-networking"],
  }).catch(e => { console.log("      chromium does not start: " + e.message.split("\n")[0]); process.exit(0); });
  const context = await browser.newContext({ ignoreHTTPSErrors: true }), page = await context.newPage();
  const noise = [], outside = [];
  page.on("console", m => { if (m.type() === "error" || m.type() === "warning") noise.push(m.text()); });
  page.on("pageerror", e => noise.push(e.message));
  page.on("request", r => { if (!r.url().startsWith(base)) outside.push(r.url()); });
  page.on("response", r => { if (r.status() >= 400) noise.push(r.status() + " " + r.url()); });
  await page.goto(link);
  await page.waitForURL(url => String(url).startsWith(base + "console/v/"));
  const home = page.url();
  for (const path of ["", "activity", "agents", "work", "decisions", "owed", "health", "message?find=nothing"]) {
    await page.goto(home + path);
    await page.waitForSelector("main");
    if (path === "health") await page.waitForSelector("#charts canvas");
  }
  await page.goto(home);
  await page.waitForResponse(r => r.url().startsWith(home) && r.request().resourceType() === "xhr"); // the page renews itself
  await page.goto(base + "console/activity"); // a bookmark leads back to the visit
  await page.waitForURL(home + "activity").catch(() => noise.push("the bookmark stays at " + page.url()));
  const [cookie] = await context.cookies(home);
  const errors = noise.filter(n => !/\b401\b|Cross-Origin-Opener-Policy/.test(n)); // of the bookmark; a header that needs TLS
  const left = page.waitForResponse(r => r.url() === home + "leave");
  await page.getByRole("button", { name: "Leave" }).click();
  const after = (await left).status();
  const say = (what, ok) => { console.log((ok ? "ok    " : "FAIL  ") + base + ": " + what); if (!ok) process.exitCode = 1; };
  say(`the pages load without errors${errors.map(e => "; " + e).join("")}`, errors.length === 0);
  say(`everything is below the path${outside.map(u => "; " + u).join("")}`, outside.length === 0);
  say(`the cookie belongs to ${cookie && cookie.path}, secure: ${cookie && cookie.secure}`, cookie && home.endsWith(cookie.path) && cookie.secure === base.startsWith("https:"));
  say(`a form is taken (${after})`, after === 200);
  await browser.close();
}
main().catch(e => { console.log("FAIL  " + e.stack); process.exit(1); });
