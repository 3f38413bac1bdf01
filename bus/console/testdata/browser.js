// Opens every page of a console in a real browser: node browser.js ADDRESS TOKEN-FILE HUBBUB DATA [SCREENSHOTS]
"use strict";
const { chromium } = require("playwright-core");
const { execFileSync } = require("child_process");
const fs = require("fs");
const [address, tokenFile, hubbub, data, shots] = process.argv.slice(2);
const base = "http://" + address, token = fs.readFileSync(tokenFile, "utf8").trim();
const faults = [];
let checks = 0;
function check(what, ok) { checks++; if (!ok) faults.push(what); console.log((ok ? "ok    " : "FAIL  ") + what); }
function run(...args) { return execFileSync(hubbub, [...args, "--bus", "ws://" + address, "--data", data], { encoding: "utf8" }); }

const hostile = '<script>window.pwned=1</script>"><img src=x onerror=window.pwned=1>';
function say(text) {
  const content = { text, chat: { id: "x", title: hostile, kind: "channel" }, author: { id: "1", displayName: hostile } };
  run("pub", "agent:second", "--type", "tg_message", "--content", JSON.stringify(content));
}

async function main() {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  for (const colorScheme of ["light", "dark"]) await visit(browser, colorScheme);
  await browser.close();
  console.log(checks + " checks, " + faults.length + " failed");
  if (faults.length) process.exit(1);
}

async function visit(browser, colorScheme) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, colorScheme });
  const page = await context.newPage();
  const noise = [];
  page.on("console", m => { if (m.type() === "error" || m.type() === "warning") noise.push(m.text()); });
  page.on("pageerror", e => noise.push(e.message));
  page.on("request", r => { if (!r.url().startsWith(base + "/")) noise.push("asked for " + r.url()); });
  const dialogs = [];
  page.on("dialog", d => { dialogs.push(d.message()); d.dismiss(); });
  const quiet = async what => {
    check(`${colorScheme}: ${what}: no error in the browser${noise.length ? ": " + noise.join("; ") : ""}`, noise.length === 0);
    check(`${colorScheme}: ${what}: hostile names did nothing`, !(await page.evaluate(() => window.pwned)) && dialogs.length === 0);
    noise.length = 0;
  };
  const picture = async name => { if (shots) await page.screenshot({ path: `${shots}/${name}-${colorScheme}.png` }); };
  const open = async path => { const r = await page.goto(base + path); check(`${colorScheme}: ${path} answers`, r.status() === 200); };

  say(hostile);
  const link = run("console").trim();
  await page.goto(link);
  await page.waitForURL(base + "/console/");
  check(`${colorScheme}: the link leads to the console`, await page.locator("svg.map").count() === 1);
  const again = await context.request.get(link);
  check(`${colorScheme}: the link works once`, again.status() === 401);

  await page.waitForFunction(() => document.querySelectorAll("svg.map .node").length >= 4 && document.querySelectorAll("svg.map .edge").length >= 3);
  const before = await page.locator(".tile i").first().textContent();
  say("move");
  await page.waitForFunction(b => document.querySelector(".tile i").textContent !== b, before);
  check(`${colorScheme}: the topology moves by itself`, true);
  await picture("topology");
  await quiet("topology");

  await open("/console/activity");
  const mark = "mark-" + colorScheme;
  say(mark);
  await page.waitForFunction(m => document.querySelector(".rows").textContent.includes(m), mark);
  check(`${colorScheme}: the tail moves`, true);
  await page.click("#pause");
  say(mark + "-paused");
  await page.waitForTimeout(3500);
  check(`${colorScheme}: a paused tail stands`, !(await page.textContent(".rows")).includes(mark + "-paused"));
  await page.click("#pause");
  await page.waitForFunction(m => document.querySelector(".rows").textContent.includes(m), mark + "-paused");
  check(`${colorScheme}: it goes on`, true);
  await picture("activity");
  const count = await page.locator("#rows tr").count();
  if (await page.locator("tr.more button").count()) {
    await page.click("tr.more button");
    await page.waitForFunction(n => document.querySelectorAll("#rows tr").length > n, count);
    check(`${colorScheme}: older rows come`, true);
  }
  await page.fill('input[name="topic"]', "agent:*");
  await page.fill('input[name="text"]', mark);
  await page.selectOption('select[name="event"]', "send_start");
  await page.click('.filters button:not([type="button"])');
  await page.waitForURL(/text=mark/);
  const cells = await page.$$eval("#rows tr:not(.more) td:nth-child(5)", tds => tds.map(td => td.textContent));
  check(`${colorScheme}: filters choose (${cells.length} rows)`, cells.length >= 2 && cells.every(c => c.startsWith("agent:")));
  await quiet("activity");

  await open("/console/activity?type=tg_message&event=send_start&topic=agent:tg*");
  await page.click("#rows td:last-child a");
  await page.waitForSelector("svg.bar rect.run");
  const bars = await page.$$eval("svg.bar rect.run", rs => rs.map(r => r.getBoundingClientRect()).filter(b => b.width > 1 && b.height > 4).length);
  check(`${colorScheme}: a trace draws ${bars} bars`, bars >= 4);
  const inside = await page.$$eval("svg.bar", ss => ss.every(s => { const b = s.querySelector("rect.run").getBoundingClientRect(), a = s.getBoundingClientRect(); return b.left >= a.left - 1 && b.right <= a.right + 1; }));
  check(`${colorScheme}: its bars lie on the axis`, inside);
  await picture("message");
  await page.click(".fall summary >> nth=0");
  check(`${colorScheme}: payloads unfold`, await page.locator(".fall details[open] pre").first().isVisible());
  await quiet("message");

  await open("/console/agents");
  await page.waitForSelector("a.id.role-agent");
  await picture("agents");
  await quiet("agents");
  for (const kind of ["agent", "tg", "cli"]) {
    const href = await page.locator(`main a.id.role-${kind}`).first().getAttribute("href").catch(() => null);
    if (!href) continue;
    await open(href);
    await picture(kind === "tg" ? "chat" : kind);
    await quiet(href);
    await open("/console/agents");
  }
  await open("/console/work");
  await picture("work");
  await quiet("work");

  await open("/console/health");
  await page.waitForFunction(() => document.querySelectorAll(".u-over").length === 6);
  const drawn = await page.$$eval(".chart canvas", cs => cs.filter(c => { const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; for (let i = 3; i < d.length; i += 4) if (d[i]) return true; return false; }).length);
  check(`${colorScheme}: six charts are drawn`, drawn === 6);
  await picture("health");
  await page.click("#theme");
  check(`${colorScheme}: the theme changes`, (await page.evaluate(() => document.documentElement.dataset.theme)) === (colorScheme === "dark" ? "light" : "dark"));
  await quiet("health");

  await page.click("text=Leave");
  await page.waitForSelector(".lonely");
  const out = await context.request.get(base + "/console/");
  check(`${colorScheme}: who left is out`, out.status() === 401);
  await context.close();
}

main().catch(e => { console.error(e); process.exit(1); });
