// What the pages need beside htmx: the pulse of the live parts, the tail, the
// charts, and questions before actions. Texts are only ever set as text.
(function () {
  "use strict";
  var every = 1500, paused = false, failing = 0;
  function $(id) { return document.getElementById(id); }

  // The pages of a visit lie where only this origin knows. Who comes without the way, by
  // a bookmark, is led there, until the visit has ended.
  var way = /^(.*?\/console\/)v\/[^/]+\//, here = location.pathname.match(way);
  var base = (location.pathname.match(/^.*?\/console\//) || ["/console/"])[0], place = "hubbub-visit " + base;
  try {
    var home = localStorage.getItem(place);
    if (!$("refused")) { if (here) localStorage.setItem(place, here[0]); }
    else if (here) { if (home === here[0]) localStorage.removeItem(place); }
    else if (way.test(home) && location.pathname.indexOf(base + "enter/")) location.replace(home + location.pathname.slice(base.length) + location.search);
  } catch (x) { /* no storage: the link's own pages */ }

  // Live parts ask for news when the page is seen and nobody selects in it.
  function pulse() {
    if (document.visibilityState !== "visible" || paused) return;
    var sel = document.getSelection();
    if (sel && !sel.isCollapsed) return;
    document.querySelectorAll('[hx-trigger="poll"]').forEach(function (el) {
      if (el.contains(document.activeElement) && /^(INPUT|SELECT)$/.test(document.activeElement.tagName)) return;
      if (!el.classList.contains("htmx-request")) htmx.trigger(el, "poll");
    });
  }
  setInterval(pulse, every);
  document.addEventListener("visibilitychange", pulse);

  function offline(on) { var n = $("offline"); if (n) n.hidden = !on; }
  document.addEventListener("htmx:afterRequest", function (e) {
    failing = e.detail.successful ? 0 : failing + 1;
    offline(failing > 1);
    if (e.detail.xhr && e.detail.xhr.status === 401) location.reload();
  });

  // Rows that were new become old before newer ones come.
  var kept = 600;
  document.addEventListener("htmx:beforeSwap", function (e) {
    if (!e.detail.target || e.detail.target.id !== "newer") return;
    var rows = $("rows"), news = $("newer");
    var moved = Array.prototype.filter.call(news.children, function (tr) { return tr.id !== "poller"; });
    for (var i = moved.length - 1; i >= 0; i--) { moved[i].classList.remove("fresh"); rows.insertBefore(moved[i], rows.firstChild); }
    var empty = rows.querySelector(".more .empty");
    if (empty && moved.length) empty.parentNode.remove();
    while (rows.children.length > kept && !rows.lastElementChild.previousElementSibling.classList.contains("more")) {
      rows.lastElementChild.previousElementSibling.remove();
    }
  });
  document.addEventListener("htmx:afterSwap", function (e) {
    if (!e.detail.target || e.detail.target.id !== "newer") return;
    var p = $("poller"), s = $("tail-state");
    if (p && s) s.textContent = p.dataset.missed || "live";
  });

  // On a phone each row of a wide table is a card, whose cells say what they are.
  function cards() {
    document.querySelectorAll(".wide > table:not(.rows):not(.fall)").forEach(function (table) {
      var names = Array.prototype.map.call(table.querySelectorAll("thead th"), function (th) { return th.textContent.trim(); });
      table.classList.add("cards");
      table.querySelectorAll("tbody tr").forEach(function (tr) {
        if (tr.children.length === names.length) names.forEach(function (name, i) { if (name) tr.children[i].dataset.label = name; });
      });
    });
  }
  document.addEventListener("htmx:afterSwap", cards);
  cards();

  // A link that has the focus has it again in the part that replaces its own.
  var focused = null;
  function linksTo(href) { return Array.prototype.filter.call(document.querySelectorAll("a[href]"), function (a) { return a.getAttribute("href") === href; }); }
  document.addEventListener("htmx:beforeSwap", function (e) {
    var a = document.activeElement, href = a && a.getAttribute("href");
    focused = href && e.detail.target && e.detail.target.contains(a) ? { href: href, at: linksTo(href).indexOf(a) } : null;
  });
  document.addEventListener("htmx:afterSettle", function () {
    if (!focused) return;
    var same = linksTo(focused.href), a = same[focused.at] || same[0], now = document.activeElement;
    focused = null;
    if (a && (!now || now === document.body)) a.focus({ preventScroll: true });
  });

  // Details that were open stay open.
  var open = {};
  document.addEventListener("toggle", function (e) { if (e.target.id) open[e.target.id] = e.target.open; }, true);
  document.addEventListener("htmx:afterSettle", function () {
    Object.keys(open).forEach(function (id) { var d = $(id); if (d && d.tagName === "DETAILS") d.open = open[id]; });
  });

  // A conversation is read from its end.
  var talk = $("talk-list");
  if (talk && talk.lastElementChild && !location.hash) talk.lastElementChild.scrollIntoView({ block: "end" });

  document.addEventListener("click", function (e) {
    var b = e.target.closest ? e.target.closest("button") : null;
    if (!b) return;
    if (b.dataset.confirm && !window.confirm(b.dataset.confirm)) e.preventDefault();
    if (b.id === "theme") {
      var root = document.documentElement;
      var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      try { localStorage.setItem("hubbub-theme", root.dataset.theme); } catch (x) { /* not kept */ }
      drawCharts(true);
    }
    if (b.id === "pause") {
      paused = !paused;
      b.textContent = paused ? "Go on" : "Pause";
      b.setAttribute("aria-pressed", String(paused));
      var s = $("tail-state");
      if (s) s.textContent = paused ? "paused" : "live";
    }
  });

  // Charts.
  var names = {
    accepted: ["accepted", "c1"], delivered: ["delivered", "c2"], failed: ["failed", "c3"], p50: ["half are faster", "c1"], p99: ["99 of 100", "c4"],
    unanswered: ["unanswered", "c1"], queued: ["queued", "c4"], rows: ["rows/s", "c2"], logQueued: ["queued", "c4"], logLag: ["age", "c1"],
    limits: ["limits", "c3"], connections: ["connections", "c2"]
  };
  var charts = [];
  function colour(name) { // as a canvas takes it: the computed one of an element
    var probe = document.createElement("i");
    probe.style.color = "var(--" + name + ")";
    document.body.appendChild(probe);
    var c = getComputedStyle(probe).color;
    probe.remove();
    return c;
  }
  function make(el, data) {
    var keys = el.dataset.lines.split(",");
    if (!keys.some(function (k) { return data[k].filter(function (v) { return v != null; }).length > 1; })) return null;
    el.textContent = "";
    var clock = function (t) { return t == null ? "–" : new Date(t * 1000).toISOString().slice(11, 19); };
    var series = [{ label: "UTC", value: function (u, t) { return clock(t); } }].concat(keys.map(function (k) {
      return { label: names[k][0], stroke: colour(names[k][1]), width: 2, points: { show: false }, spanGaps: true, value: function (u, v) { return v == null ? "–" : v.toFixed(v < 10 ? 2 : 0); } };
    }));
    var grid = { stroke: colour("line"), width: 1 }, text = colour("dim");
    var u = new uPlot({
      width: el.clientWidth, height: 190, series: series, cursor: { sync: { key: "health" } },
      scales: { y: { range: function (s, min, max) { return [0, max > 0 ? max * 1.15 : 1]; } } },
      axes: [{ stroke: text, grid: { show: false }, ticks: grid, space: 80, values: function (u, ts) { return ts.map(clock); } }, { stroke: text, grid: grid, ticks: { show: false }, size: 56 }]
    }, columns(keys, data), el);
    return { el: el, keys: keys, plot: u };
  }
  function columns(keys, data) { return [data.t].concat(keys.map(function (k) { return data[k]; })); }
  var last = null;
  function drawCharts(again) {
    var box = $("charts");
    if (!box || !last || typeof uPlot === "undefined") return;
    if (again) { charts.forEach(function (c) { c.plot.destroy(); }); charts = []; }
    charts.forEach(function (c) { c.plot.setData(columns(c.keys, last)); });
    box.querySelectorAll(".chart").forEach(function (el) {
      var c = charts.some(function (c) { return c.el === el; }) ? null : make(el, last);
      if (c) charts.push(c);
    });
  }
  function fetchCharts() {
    var box = $("charts");
    if (!box || document.visibilityState !== "visible") return;
    fetch(box.dataset.series, { credentials: "same-origin" }).then(function (r) {
      if (!r.ok) throw new Error("status " + r.status);
      return r.json();
    }).then(function (d) { last = d; drawCharts(false); }).catch(function () { offline(true); });
  }
  if ($("charts")) {
    fetchCharts();
    setInterval(fetchCharts, 4000);
    var wait;
    window.addEventListener("resize", function () {
      clearTimeout(wait);
      wait = setTimeout(function () { charts.forEach(function (c) { c.plot.setSize({ width: c.el.clientWidth, height: 190 }); }); }, 150);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { drawCharts(true); });
  }
})();
