// Opens every page of a console in a real browser: node browser.js ADDRESS TOKEN-FILE HUBBUB DATA [SCREENSHOTS]
"use strict";
const { chromium } = require("playwright-core");
const { execFileSync } = require("child_process");
const http = require("http");
const fs = require("fs");
const axe = fs.readFileSync(require.resolve("axe-core"), "utf8");
const [address, tokenFile, hubbub, data, shots] = process.argv.slice(2);
const base = "http://" + address, token = fs.readFileSync(tokenFile, "utf8").trim();
const visits = new RegExp("^" + base + "/console/v/[A-Z2-7]+/$"); // where the pages of a visit lie
const faults = [];
let checks = 0;
function check(what, ok) { checks++; if (!ok) faults.push(what); console.log((ok ? "ok    " : "FAIL  ") + what); }
function run(...args) { return execFileSync(hubbub, [...args, "--bus", "ws://" + address, "--data", data], { encoding: "utf8" }); }
function linkFor(secret) { return execFileSync(hubbub, ["console", "--bus", "ws://" + address], { encoding: "utf8", env: { ...process.env, HUBBUB_TOKEN: secret } }).trim(); }

const hostile = '<script>window.pwned=1</script>"><img src=x onerror=window.pwned=1>';
function say(text) {
  const content = { text, chat: { id: "x", title: hostile, kind: "channel" }, author: { id: "1", displayName: hostile } };
  run("pub", "agent:second", "--type", "tg_message", "--content", JSON.stringify(content));
}

// die makes a dead letter: Telegram refuses a reaction to a message that is not there.
function die() { run("pub", "tg:-1001", "--type", "tg_reply", "--content", JSON.stringify({ signal: "seen", inReplyTo: "tg:123456:-1001:999999" })); }
const refused = "message to react not found";

async function main() {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  }).catch((e) => {
    console.log("chromium does not start: " + e.message.split("\n")[0]);
    process.exit(77); // no fault of the console
  });
  run("work", "create", "Look at the build", "--owner", "second", "--quiet");
  run("ask", "ana", "Which region do we deploy to?");
  await wait();
  await pictures(browser);
  if (process.env.PICTURES) return finish(browser);
  for (const colorScheme of schemes) await visit(browser, colorScheme);
  await deadLetters(browser);
  await acts(browser);
  for (const size of ["desktop", "phone"]) await accessible(browser, size);
  await otherPort(browser);
  await finish(browser);
}

async function finish(browser) {
  await browser.close();
  console.log(checks + " checks, " + faults.length + " failed");
  if (faults.some(f => f.startsWith("picture"))) console.log("Look at the pages (SCREENSHOTS=FOLDER scripts/test-console.sh). If they are as they should be, PICTURES=keep scripts/test-console.sh keeps their new pictures.");
  if (faults.length) process.exit(1);
}

// wait makes an agent that waits for a person, that a person allowed something, and that has used up a budget.
async function wait() {
  const env = { ...process.env, HUBBUB_TOKEN: run("token", "create", "asker", "--identity", "agent:asker", "--publish", "collab:*", "--publish", "system:*").trim() };
  const until = new Date(Date.now() + 3600e3).toISOString();
  const say = (topic, type, content) => execFileSync(hubbub, ["pub", topic, "--as", "agent:asker", "--type", type, "--content", JSON.stringify(content), "--bus", "ws://" + address], { env, stdio: "pipe" });
  for (let i = 0; ; i++) { // the bus reads the new credential within a second
    try { say("system:attention", "agent_event", { event: "budget", eventId: "e1", state: "withheld", reason: "budget_turns", bound: 5, until }); break; } catch (e) { if (i > 40) throw e; await new Promise(done => setTimeout(done, 300)); }
  }
  for (const id of ["dec_waits", "dec_stands"]) say("collab:broker", "collab_request", { method: "decision.ask", params: { id, tool: "mcp:deploy.run", arguments: '{"what":"the website"}', digest: "0".repeat(64), chat: "tg:-1001", mayDecide: ["tg:1"], expiresAt: until, default: "deny" } });
  for (let i = 0; ; i++) { // the broker answers whoever asked, in its time
    try { run("decisions", "allow", "dec_stands", "--scope", "always"); return; } catch (e) { if (i > 40) throw e; await new Promise(done => setTimeout(done, 300)); }
  }
}

// acts decides, revokes, answers and gives up what waits for a person.
async function acts(browser) {
  const { context, page, noise, home } = await visitor(browser, run("console").trim(), desktop);
  page.on("dialog", d => d.accept());
  for (const [path, row, button, done, said] of [
    ["decisions", "#pending tr:has(form)", "Deny", "denied"], ["decisions", "#standing tr:has(form)", "Revoke", "revoked"],
    ["owed", "tr:has-text('Which region'):has(form)", "Answer", "is now answered", "eu-west"], ["owed", "tr:has-text('Look at the build'):has(form)", "Give up", "is now cancelled"],
  ]) {
    await page.goto(home + path);
    if (said) await page.locator(row).first().getByLabel("the answer").fill(said);
    await page.locator(row).first().getByRole("button", { name: button }).click();
    await page.waitForSelector(`.notice.good:has-text('${done}')`);
    check(`${path}: ${button} does that`, true);
  }
  check("decisions: hubbub knows of both", !run("decisions").includes("dec_") && !run("owe").includes("Which region"));
  check(`acts: no error in the browser${noise.length ? ": " + noise.join("; ") : ""}`, noise.length === 0);
  await context.close();
}

// visitor opens the console with a link, and collects what goes wrong in the browser.
async function visitor(browser, link, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage(), noise = [];
  page.on("console", m => { if (m.type() === "error" || m.type() === "warning") noise.push(m.text()); });
  page.on("pageerror", e => noise.push(e.message));
  await page.goto(link);
  await page.waitForURL(visits);
  return { context, page, noise, home: page.url() };
}

async function deadLetters(browser) {
  die();
  die();
  const { context, page, noise, home } = await visitor(browser, run("console").trim(), { viewport: { width: 1360, height: 860 } });
  page.on("dialog", d => d.accept());
  const rows = page.locator(`#dead tbody tr:has(form):has-text("${refused}")`);
  for (let i = 0; i < 60 && await rows.count() < 2; i++) { await page.waitForTimeout(500); await page.goto(home + "work"); }
  const ids = await rows.locator('[value="drop"]').evaluateAll(bs => bs.map(b => b.closest("form").elements.id.value));
  check(`dead letters: ${ids.length} are listed`, ids.length >= 2);
  await page.goto(home);
  await page.waitForSelector(".alerts a[href$='#dead']");
  check("dead letters: the first page names them", true);
  if (shots) await page.screenshot({ path: `${shots}/alerts-light.png` });

  const secret = run("token", "create", "looker", "--identity", "cli:looker", "--subscribe", "*").trim();
  let looker;
  for (let i = 0; ; i++) { // the bus reads the new credential within a second
    try { looker = await visitor(browser, linkFor(secret), {}); break; } catch (e) { if (i > 40) throw e; await page.waitForTimeout(500); }
  }
  await looker.page.goto(looker.home + "work");
  check("read-only: the letters are listed, and nothing can be pressed", await looker.page.locator(`#dead tbody tr:has-text("${refused}")`).count() >= 2 && await looker.page.locator("#dead button").count() === 0);
  await page.goto(home + "work");
  const form = await rows.first().locator('[name="form"]').first().inputValue();
  const forged = await looker.page.evaluate(async ([form, id]) => (await fetch("./deadletter", { method: "POST", body: new URLSearchParams({ form, id, do: "drop" }) })).status, [form, ids[0]]);
  check(`read-only: acting all the same is refused (${forged})`, forged === 403);
  await looker.context.close();

  const letter = id => page.locator(`#dead tbody tr:has(input[name="id"][value="${id}"])`);
  await letter(ids[0]).locator('[value="drop"]').click();
  await page.waitForSelector(".notice.good:has-text('was dropped')");
  check("dead letters: one is dropped", await letter(ids[0]).count() === 0);
  await letter(ids[1]).locator('[value="retry"]').click();
  await page.waitForSelector(".notice.good:has-text('will be sent again')");
  check("dead letters: one is retried", true);
  if (shots) await page.screenshot({ path: `${shots}/dead-light.png` });
  check(`dead letters: no error in the browser${noise.length ? ": " + noise.join("; ") : ""}`, noise.length === 0);
  await context.close();
}

// otherPort is the attack of a server at another port of the console's host: the same browser comes to it, from a
// page of the console and to every path that it can guess. What it received must open and do nothing.
async function otherPort(browser) {
  const { context, page, home } = await visitor(browser, run("console").trim(), {});
  const seen = [];
  const spy = http.createServer((req, res) => { seen.push(req.headers); res.setHeader("Content-Type", "text/html"); res.end("<p id=here>hello</p>"); });
  await new Promise(done => spy.listen(0, "127.0.0.1", done));
  const evil = "http://127.0.0.1:" + spy.address().port;
  await page.goto(home + "work");
  const form = await page.locator('[name="form"]').first().inputValue();
  await page.evaluate(url => { const a = document.createElement("a"); a.href = url; a.textContent = "there"; document.body.append(a); a.click(); }, evil + "/console/work");
  await page.waitForSelector("#here");
  for (const path of ["/", "/console/", "/console/v/", "/console/v/x/", "/console/deadletter"]) await page.goto(evil + path);
  const script = await page.evaluate(() => [document.cookie, document.referrer, JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join(" "));
  const secrets = [new URL(home).pathname.split("/")[3], ...(await context.cookies(home)).map(c => c.value)];
  const leaked = JSON.stringify(seen) + script;
  check(`another port: ${seen.length} requests brought no cookie and no secret of the visit`,
    seen.length >= 6 && secrets.length === 2 && seen.every(h => !h.cookie) && secrets.every(s => !leaked.includes(s)));
  const act = await page.evaluate(async ([base, form]) => {
    const tries = [];
    for (const path of ["/console/deadletter", "/console/v/x/deadletter", "/console/leave"])
      await fetch(base + path, { method: "POST", mode: "no-cors", credentials: "include", body: new URLSearchParams({ form, id: "1", do: "drop" }) }).then(r => tries.push(r.type), e => tries.push(e.name));
    const read = await fetch(base + "/console/state.json", { credentials: "include" }).then(() => "read", e => e.name);
    return tries.concat(read);
  }, [base, form]);
  check(`another port: its pages read nothing of the console (${act})`, !act.includes("read"));
  const replay = async headers => (await (await browser.newContext()).request.get(base + "/console/work", { headers })).status();
  const codes = [];
  for (const h of seen) codes.push(await replay(Object.fromEntries(Object.entries(h).filter(([k]) => !/^(host|connection)$/.test(k)))));
  check(`another port: what it received opens nothing (${[...new Set(codes)]})`, codes.every(c => c === 401));
  check("another port: the visit goes on", (await page.goto(home)).status() === 200);
  spy.close();
  await context.close();
}

const schemes = ["light", "dark"];
const desktop = { viewport: { width: 1280, height: 806 } };
const handheld = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };

// everyPage returns the path of each page of a console, from its home.
async function everyPage(page, home) {
  const first = async (list, link) => { await page.goto(home + list); return (await page.locator(link).evaluateAll(as => as.map(a => a.href)).catch(() => []))[0]?.slice(home.length); };
  return ["", "activity", await first("activity?type=tg_reply&event=send_start&text=blocked", "#rows td:last-child a"), "agents", "chat?id=tg%3A-1001", "agent?id=agent%3Asecond", "peer?id=tg%3A123456", "work",
    await first("work", "main a[href*='id=wi_']"), await first("work", "main a[href*='id=q_']"), "decisions", "owed", "health", "agent?id=agent%3Aasker", "message?find=nothing+has+these+words", "nowhere", "../../enter/used"].filter(path => path !== undefined);
}

function nameOf(path) { return path.replace(/^\.\.\/\.\.\//, "").split("?")[0].replace("/", "-") || "overview"; }

// accessible has axe-core look at each page: no violation of WCAG or of its best practices. A phone shows all of
// its width, without an error.
async function accessible(browser, size) {
  const { context, page, noise, home } = await visitor(browser, run("console").trim(), size === "phone" ? handheld : desktop);
  for (const path of await everyPage(page, home)) {
    const name = nameOf(path);
    await page.goto(home + path);
    if (size === "phone") {
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(`phone: ${name} fits (${over} px too wide)`, over <= 0);
      const cut = await page.locator("main button, main .button, main input, main select").evaluateAll(es => es.filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth).map(e => e.textContent || e.name));
      check(`phone: ${name} cuts nothing that one presses${cut.length ? ": " + cut : ""}`, cut.length === 0);
      if (shots) await page.screenshot({ path: `${shots}/phone-${name}.png` });
    }
    else for (const width of [1360, 1500, 1024, 1280]) {
      await page.setViewportSize({ ...desktop.viewport, width });
      check(`desktop: the head of ${name} is one line of ${width} px`, await page.locator(".top").evaluate(e => e.offsetHeight < 70));
      const cut = await page.locator(".wide button, .wide input").evaluateAll(es => es.filter(e => e.checkVisibility() && e.getBoundingClientRect().right > e.closest(".wide").getBoundingClientRect().right + 1).map(e => e.textContent || e.name));
      check(`desktop: ${name} cuts nothing that one presses at ${width} px${cut.length ? ": " + cut : ""}`, cut.length === 0);
    }
    await page.evaluate(axe);
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" }); // a row that fades in has many colours
      const found = (await page.evaluate(() => window.axe.run())).violations;
      check(`axe: ${name}, ${colorScheme}, ${size}`, found.length === 0);
      for (const v of found) console.log(`        ${v.id}: ${v.help}\n` + v.nodes.slice(0, 3).map(n => `          ${n.target} ${n.any.concat(n.all).map(a => a.message)[0] || ""}`).join("\n"));
      if (shots && size === "desktop") await page.screenshot({ path: `${shots}/${name}-${colorScheme}.png`, fullPage: true });
    }
  }
  const others = noise.filter(n => !/40[14]/.test(n)); // the page that is not there, and the link that was used
  check(`${size}: no error in the browser${others.length ? ": " + others.join("; ") : ""}`, others.length === 0);
  await context.close();
}

// still leaves of a page what is the same after each demo: no figure, id or time, nothing that moves.
function still() {
  document.querySelectorAll("svg.bar, svg.map, svg.ruler, canvas, .u-legend").forEach(e => { e.style.visibility = "hidden"; });
  document.querySelectorAll('[hx-trigger="poll"]').forEach(e => e.removeAttribute("hx-trigger"));
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = walk.nextNode());) n.data = n.data.replace(/[0-9A-Z]{8,}/g, m => "0".repeat(m.length)).replace(/[0-9][0-9., \u202f]*([µm]?s|[mhd])?\b/g, (m, unit) => unit ? "0 s" : "0");
}

// sheet draws pictures beside each other, and tells those whose kept one differs: its share of cells of 12 by 12
// pixels that are visibly lighter or darker.
async function sheet(page, shown, kept, shape) {
  return page.evaluate(async ([shown, kept, { w, h, columns }]) => {
    const load = async url => { const i = new Image(); i.src = url; await i.decode(); return i; };
    const canvas = document.createElement("canvas"), g = canvas.getContext("2d", { willReadFrequently: true });
    canvas.width = w * columns; canvas.height = h * Math.ceil(shown.length / columns);
    for (const [i, url] of shown.entries()) g.drawImage(await load(url), (i % columns) * w, Math.floor(i / columns) * h, w, h);
    const url = canvas.toDataURL("image/png"), cell = 12;
    if (!kept) return { url, apart: [] };
    const before = document.createElement("canvas"), b = before.getContext("2d", { willReadFrequently: true });
    before.width = canvas.width; before.height = canvas.height;
    b.drawImage(await load(kept), 0, 0);
    const grey = (c, x, y) => { const d = c.getImageData(x, y, cell, cell).data; let sum = 0; for (let i = 0; i < d.length; i += 4) sum += d[i] + d[i + 1] + d[i + 2]; return sum / (d.length / 4) / 3; };
    return { url, apart: shown.map((_, i) => {
      let all = 0, off = 0;
      for (let y = 0; y + cell <= h; y += cell) for (let x = 0; x + cell <= w; x += cell, all++) if (Math.abs(grey(g, (i % columns) * w + x, Math.floor(i / columns) * h + y) - grey(b, (i % columns) * w + x, Math.floor(i / columns) * h + y)) > 12) off++;
      return off / all;
    }) };
  }, [shown, kept, shape]);
}

// How much of a page may differ: where the timing of the demo makes a line more, which moves all below it, or another
// order of who talked most, more than elsewhere.
const folder = require("path").join(__dirname, "pictures");
function most(name) { return /^(activity|message|chat|agents|agent|peer|overview)$/.test(name) ? 0.25 : 0.03; }

// pictures compares each page with the one that is kept; PICTURES=keep keeps the new ones. Where other fonts
// draw the pages there is nothing to compare.
async function pictures(browser) {
  const keep = process.env.PICTURES === "keep";
  if (keep) fs.mkdirSync(folder, { recursive: true });
  for (const size of ["desktop", "phone"]) {
    const { context, page, home } = await visitor(browser, run("console").trim(), size === "phone" ? handheld : desktop);
    const fonts = await page.evaluate(() => JSON.stringify(["", "600 ", "mono"].map(kind => { // as the pages are drawn
      const e = document.createElement("p"), g = document.createElement("canvas").getContext("2d");
      e.className = kind;
      document.body.append(e);
      g.font = (kind === "600 " ? kind : "") + "14px " + getComputedStyle(e).fontFamily;
      e.remove();
      return g.measureText("Who waits for whom").width; })));
    const drawnWith = `${folder}/fonts.json`;
    if (!keep && fs.existsSync(drawnWith) && fs.readFileSync(drawnWith, "utf8").trim() !== fonts) { console.log("pictures: other fonts are here, so nothing is compared"); await context.close(); return; }
    const names = [], shown = { light: [], dark: [] };
    for (const path of await everyPage(page, home)) {
      await page.goto(home + path.replace(/^activity$/, "activity?type=tg_message&topic=agent:tg*"));
      await page.waitForLoadState("load");
      await page.evaluate(still);
      names.push(nameOf(path));
      for (const colorScheme of schemes) {
        await page.emulateMedia({ colorScheme });
        shown[colorScheme].push("data:image/png;base64," + (await page.screenshot()).toString("base64"));
      }
    }
    await page.goto("about:blank");
    for (const colorScheme of schemes) {
      const file = `${folder}/${colorScheme}-${size}.png`;
      const kept = !keep && fs.existsSync(file) ? "data:image/png;base64," + fs.readFileSync(file).toString("base64") : null;
      const { url, apart } = await sheet(page, shown[colorScheme], kept, size === "phone" ? { w: 156, h: 336, columns: 7 } : { w: 324, h: 204, columns: 5 });
      const png = Buffer.from(url.split(",")[1], "base64");
      if (keep) { fs.writeFileSync(file, png); fs.writeFileSync(drawnWith, fonts + "\n"); }
      if (shots) fs.writeFileSync(`${shots}/kept-${colorScheme}-${size}.png`, png);
      if (!keep) check(`pictures: ${colorScheme}, ${size} are kept`, kept !== null);
      apart.forEach((share, i) => check(`picture: ${names[i]}, ${colorScheme}, ${size} is the one that is kept (${(100 * share).toFixed(1)} % differ)`, share <= most(names[i])));
    }
    await context.close();
  }
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
  const open = async path => { const r = await page.goto(new URL(path, home).href); check(`${colorScheme}: ${path} answers`, r.status() === 200); };

  say(hostile);
  const link = run("console").trim();
  await page.goto(link);
  await page.waitForURL(visits);
  const home = page.url();
  check(`${colorScheme}: the link leads to the console`, await page.locator("svg.map").count() === 1);
  const again = await context.request.get(link);
  check(`${colorScheme}: the link works once`, again.status() === 401);

  await page.waitForFunction(() => document.querySelectorAll("svg.map .node").length >= 4 && document.querySelectorAll("svg.map .edge").length >= 3);
  const before = await page.locator(".tile i").first().textContent();
  say("move");
  await page.waitForFunction(b => document.querySelector(".tile i").textContent !== b, before);
  check(`${colorScheme}: the topology moves by itself`, true);
  await picture("topology");
  const node = page.locator("svg.map a.node").nth(1), swapped = page.evaluate(() => new Promise(done => { let n = 0; document.addEventListener("htmx:afterSettle", () => { if (++n === 2) setTimeout(done, 50); }); }));
  await node.focus();
  const where = await node.getAttribute("href");
  await swapped;
  check(`${colorScheme}: the focus outlives news`, await page.evaluate(() => document.activeElement.getAttribute("href")) === where);
  await quiet("topology");

  await open("./activity");
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
  const kinds = async () => page.$$eval("#rows tr", rs => new Set(rs.map(r => r.className.match(/ev-\w+/)?.[0]).filter(k => /process_start|send_start/.test(k))).size);
  check(`${colorScheme}: a message is one line`, await kinds() === 1);
  await page.check('input[name="rows"]');
  await page.click('.filters button:not([type="button"])');
  await page.waitForURL(/rows=all/);
  check(`${colorScheme}: all its rows come on demand`, await kinds() === 2);
  await open("./activity?type=!tg_message&peer=!cli:*");
  check(`${colorScheme}: what is not wanted is left out`, await page.$$eval("#rows tr:not(.more)", rs => rs.length > 0 && rs.every(r => r.children[2].textContent !== "tg_message" && !r.children[3].textContent.startsWith("cli:"))));
  await open("./activity");
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

  await open("./activity?type=tg_message&event=send_start&topic=agent:tg*");
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

  await open("./agents");
  await page.waitForSelector("a.id.role-agent");
  await picture("agents");
  await quiet("agents");
  for (const kind of ["agent", "tg", "cli"]) {
    const [href] = await page.locator(`main a.id.role-${kind}`).evaluateAll(as => as.map(a => a.getAttribute("href")));
    if (!href) continue; // commands that came and went are counted, not listed
    await open(href);
    await picture(kind === "tg" ? "chat" : kind);
    await quiet(href);
    if (kind === "agent" && await page.locator('input[name="said"]').count()) {
      await page.fill('input[name="said"]', "is the tide high? " + colorScheme);
      await page.click("form.say button");
      await page.waitForSelector("#talk .words:nth-of-type(2), #talk .notice");
      check(`${colorScheme}: an agent answers who talks to it`, (await page.textContent("#talk")).includes("is the tide high? " + colorScheme) && await page.locator("#talk .notice").count() === 0);
      await picture("talk");
      await quiet("talk");
    }
    await open("./agents");
  }
  await open("./work");
  await picture("work");
  await quiet("work");

  await open("./health");
  await page.waitForFunction(() => document.querySelectorAll(".u-over").length === 6);
  const drawn = await page.$$eval(".chart canvas", cs => cs.filter(c => { const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; for (let i = 3; i < d.length; i += 4) if (d[i]) return true; return false; }).length);
  check(`${colorScheme}: six charts are drawn`, drawn === 6);
  await picture("health");
  await page.click("#theme");
  check(`${colorScheme}: the theme changes`, (await page.evaluate(() => document.documentElement.dataset.theme)) === (colorScheme === "dark" ? "light" : "dark"));
  await quiet("health");

  await context.setOffline(true);
  await page.waitForSelector("#offline:not([hidden])");
  await context.setOffline(false);
  await page.waitForSelector("#offline", { state: "hidden" });
  check(`${colorScheme}: a page says when the bus is gone, and goes on when it is back`, true);
  noise.length = 0; // the requests that failed meanwhile

  await page.goto(base + "/console/health");
  await page.waitForURL(home + "health");
  check(`${colorScheme}: a bookmark leads to the visit`, true);
  await page.click("text=Leave");
  await page.waitForSelector(".lonely");
  const out = await context.request.get(home);
  check(`${colorScheme}: who left is out`, out.status() === 401);
  await context.close();
}

main().catch(e => { console.error(e); process.exit(1); });
