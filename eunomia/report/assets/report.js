"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const tip = byId("tip");
const state = { policy: data.shown };

// ---- small tools ---------------------------------------------------------------------------------
const SVG = "http://www.w3.org/2000/svg";
function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
function html(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") node.style.cssText = value; else if (value != null) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const tenantIndex = new Map(data.tenants.map((name, i) => [name, i]));
const tenantVar = (name) => `--t${(tenantIndex.get(name) ?? 0) % 8}`;
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const percent = (x, digits = 0) => x == null ? "no data" : `${(100 * x).toFixed(digits)} %`;
function span(seconds) {
  if (seconds == null) return "unknown";
  const size = Math.abs(seconds);
  const digits = (x) => Math.abs(x) < 10 ? x.toFixed(2) : Math.abs(x) < 100 ? x.toFixed(1) : x.toFixed(0);
  if (size === 0) return "0 ms";
  if (size < 0.9995e-6) return `${(seconds * 1e9).toFixed(0)} ns`;
  if (size < 0.9995e-3) return `${digits(seconds * 1e6)} \u00b5s`;
  if (size < 0.9995) return `${digits(seconds * 1e3)} ms`;
  return `${digits(seconds)} s`;
}
function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) ?? power * 10;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return found;
}
let measure;
function textWidth(text, font = "13px system-ui, sans-serif") {
  measure ??= document.createElement("canvas").getContext("2d");
  measure.font = font;
  return measure.measureText(text).width;
}
function fitted(text, width) {
  if (textWidth(text) <= width) return text;
  let n = text.length;
  while (n > 1 && textWidth(text.slice(0, n) + "\u2026") > width) n--;
  return text.slice(0, n) + "\u2026";
}
function showTip(x, y, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 16 + box.width > innerWidth - 8 ? x - 16 - box.width : x + 16;
  tip.style.left = `${clamp(left, 8, Math.max(8, innerWidth - box.width - 8))}px`;
  tip.style.top = `${clamp(y + 14, 8, innerHeight - box.height - 8)}px`;
}
const hideTip = () => { tip.hidden = true; };
function tipped(node, text) {
  node.addEventListener("pointermove", (e) => showTip(e.clientX, e.clientY, text));
  node.addEventListener("pointerleave", hideTip);
  node.append(svg("title", {}, text));
  return node;
}
function empty(host, text) { host.replaceChildren(html("p", { class: "empty" }, text)); }

// ---- policy picker -------------------------------------------------------------------------------
function buildPicker() {
  const bar = byId("picker"), box = html("div", { class: "chips" });
  bar.append(box);
  data.policies.forEach((name, i) => {
    const input = html("input", { type: "radio", name: "policy", value: String(i) });
    input.checked = i === state.policy;
    input.addEventListener("change", () => { state.policy = i; showChosen(); draw(); });
    box.append(html("label", {}, input, html("span", {}, html("bdi", {}, name))));
  });
  showChosen();
  if (data.policies.length < 2) bar.parentElement.hidden = true;
}

function showChosen() {  // where the row of policies is wider than the page
  const box = byId("picker").querySelector(".chips"), label = box.children[state.policy];
  if (!label) return;
  const outer = box.getBoundingClientRect(), inner = label.getBoundingClientRect();
  box.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
}

// ---- SLOs: dumbbells -----------------------------------------------------------------------------
const KINDS = {
  hit_rate: { title: "Hit rate", more: true, share: true },
  drop_rate: { title: "Drop rate", more: false, share: true },
  latency_percentile: { title: "Response time, percentile", more: false, share: false },
  latency_mean: { title: "Response time, mean", more: false, share: false },
  throughput: { title: "Throughput", more: true, share: false },
};
function valueText(kind, value) {
  if (value == null) return "no data";
  if (KINDS[kind].share) return percent(value, 1);
  return kind === "throughput" ? `${value.toPrecision(3)} /s` : span(value);
}
function drawSlo() {
  const host = byId("chart-slo");
  if (!data.pairs.length) { byId("slo-note").textContent = ""; return empty(host, "No tenant of this scenario has an SLO."); }
  host.replaceChildren();
  const kinds = Object.keys(KINDS).filter((kind) => data.pairs.some((row) => row.slo_kind === kind));
  for (const kind of kinds) {
    const scale = KINDS[kind].share ? "" : ", in multiples of the target";
    if (kinds.length > 1 || scale) host.append(html("h3", {}, KINDS[kind].title + scale));
    host.append(dumbbells(data.pairs.filter((row) => row.slo_kind === kind), kind, host.clientWidth));
  }
}
function dumbbells(rows, kind, width) {
  const narrow = width < 620, height = narrow ? 50 : 38, top = 26;
  const name = (row) => `${row.tenant} \u00b7 ${row.model}`;
  const left = narrow ? 4 : clamp(Math.max(...rows.map((r) => textWidth(name(r)))) + 18, 90, width * 0.34);
  const right = narrow ? 4 : 190;
  // shares on a common scale; others relative to their target, so that rows compare
  const relative = !KINDS[kind].share;
  const scaled = (row, value) => relative ? value / (row.slo_target || 1) : value;
  const everything = rows.flatMap((r) => Object.values(r.policies).map((a) => scaled(r, a.sli.mean ?? 0)));
  const most = relative ? Math.max(1.25, Math.min(4, ...[Math.max(...everything)])) : 1;
  const x = (v) => left + clamp(v, 0, most) / most * (width - left - right);
  const total = top + rows.length * height + 4;
  const root = svg("svg", { viewBox: `0 0 ${width} ${total}`, width, height: total, role: "img",
    "aria-label": `Indicator and target, ${KINDS[kind].title}` });
  for (const t of ticks(0, most, narrow ? 4 : 5)) {
    root.append(svg("line", { class: "grid", x1: x(t), x2: x(t), y1: top - 6, y2: total }),
      svg("text", { class: "soft small", x: x(t), y: 12, "text-anchor": t === 0 && narrow ? "start" : t >= most && narrow ? "end" : "middle" },
        relative ? `${+t.toFixed(2)} \u00d7` : percent(t)));
  }
  rows.forEach((row, i) => {
    const y = top + i * height + (narrow ? 34 : height / 2);
    const outcome = row.policies[data.policies[state.policy]], mine = outcome?.sli;
    const good = mine?.mean != null && (KINDS[kind].more ? mine.mean >= row.slo_target - 1e-12 : mine.mean <= row.slo_target + 1e-12);
    const colour = `var(${good ? "--good" : "--bad"})`;
    const label = `${valueText(kind, mine?.mean)}, target ${valueText(kind, row.slo_target)}`;
    if (narrow) {
      root.append(svg("text", { x: 4, y: y - 16, class: "strong" }, fitted(name(row), width - textWidth(label) - 24)),
        svg("text", { x: width - 4, y: y - 16, "text-anchor": "end", fill: colour, style: `fill:${colour}` }, label));
    } else {
      root.append(svg("text", { x: left - 14, y: y + 4, "text-anchor": "end" }, fitted(name(row), left - 18)),
        svg("text", { x: width - right + 16, y: y + 4, style: `fill:${colour}` }, label));
    }
    for (const [policy, other] of Object.entries(row.policies)) {
      if (policy === data.policies[state.policy] || other.sli.mean == null) continue;
      root.append(tipped(svg("circle", { cx: x(scaled(row, other.sli.mean)), cy: y, r: 3.5, fill: "var(--paper)", stroke: "var(--ring)", "stroke-width": 1.4 }),
        `${policy}: ${valueText(kind, other.sli.mean)}, target ${valueText(kind, row.slo_target)}`));
    }
    const target = x(scaled(row, row.slo_target));
    if (mine?.mean != null) {
      const at = x(scaled(row, mine.mean));
      root.append(svg("line", { x1: target, x2: at, y1: y, y2: y, stroke: colour, "stroke-width": 5, "stroke-opacity": 0.28 }));
      if (mine.low != null) root.append(svg("line", { x1: x(scaled(row, mine.low)), x2: x(scaled(row, mine.high)), y1: y, y2: y, stroke: colour, "stroke-width": 1.6 }));
      const over = scaled(row, mine.mean) > most ? " (beyond the scale)" : "";
      const interval = mine.low == null ? "too few seeds for an interval" : `95 % interval ${valueText(kind, mine.low)} to ${valueText(kind, mine.high)}`;
      root.append(tipped(svg("circle", { cx: at, cy: y, r: 6, fill: colour }),
        `${name(row)}\n${label}${over}\n${interval}\nSLO met on ${Math.round(outcome.met * outcome.runs)} of ${outcome.runs} seeds`));
    }
    root.append(svg("rect", { x: target - 1.5, y: y - 9, width: 3, height: 18, rx: 1, fill: "var(--ink)" }));
  });
  return root;
}

// ---- where the time goes: stacked bars -----------------------------------------------------------
const PARTS = [["queueing", "waiting, nothing of it running"], ["service", "running at full speed"],
  ["contention", "slowed by shared memory bandwidth"], ["switching", "switching between requests"]];
function drawSplit() {
  const host = byId("chart-split");
  const rows = data.split[data.policies[state.policy]] ?? [];
  if (!rows.length) return empty(host, "No request was measured.");
  const width = host.clientWidth, narrow = width < 620, height = narrow ? 52 : 40;
  const legend = html("ul", { class: "legend" }, ...PARTS.map(([part, words]) =>
    html("li", {}, html("i", { style: `background:var(--${part})` }), `${part}: ${words}`)));
  const sum = (row) => row.parts.reduce((a, b) => a + b, 0);
  const most = Math.max(...rows.map(sum)) || 1;
  const left = narrow ? 4 : clamp(Math.max(...rows.map((r) => textWidth(r.tenant))) + 18, 60, width * 0.3);
  const right = narrow ? 4 : 90, total = rows.length * height + 4;
  const root = svg("svg", { viewBox: `0 0 ${width} ${total}`, width, height: total, role: "img", "aria-label": "Mean time in the system by tenant" });
  rows.forEach((row, i) => {
    const y = i * height + (narrow ? 24 : 7), thick = height - (narrow ? 30 : 14);
    root.append(narrow
      ? svg("text", { x: 4, y: y - 8, class: "strong" }, fitted(row.tenant, width - 100))
      : svg("text", { x: left - 14, y: y + thick / 2 + 4, "text-anchor": "end" }, fitted(row.tenant, left - 18)));
    let x = left;
    row.parts.forEach((value, k) => {
      const size = value / most * (width - left - right);
      if (size < 0.3) return;
      const bar = svg("g", {}, svg("rect", { x, y, width: size, height: thick, fill: `var(--${PARTS[k][0]})` }));
      const text = span(value);
      if (size > textWidth(text) + 14) bar.append(svg("text", { x: x + size / 2, y: y + thick / 2 + 4.5, "text-anchor": "middle", class: "small", style: "fill:var(--on-bar)" }, text));
      root.append(tipped(bar, `${row.tenant}: ${PARTS[k][0]} ${text}, ${percent(value / sum(row))} of ${span(sum(row))}\n${row.requests} requests`));
      x += size;
    });
    root.append(narrow
      ? svg("text", { x: width - 4, y: y - 8, "text-anchor": "end", class: "soft" }, span(sum(row)))
      : svg("text", { x: x + 10, y: y + thick / 2 + 4.5, class: "soft" }, span(sum(row))));
  });
  host.replaceChildren(legend, root);
}

// ---- fairness over time --------------------------------------------------------------------------
function drawFairness() {
  const host = byId("chart-fairness");
  const lines = data.fairness[data.policies[state.policy]];
  if (!lines) return empty(host, "This policy was not run on the seed shown.");
  byId("fairness-note").textContent = `Tenants' hit rates over the last ${span(lines.window_s)}, seed ${data.seed}; a miss counts at its deadline. ` +
    "Thin lines are tenants, equal ones drawn side by side; the dashed one is their mean, the red band the worst of them; below, Jain's index (1 = all equal). " +
    "Short windows hold few requests, so dips of a single tenant may be chance.";
  const width = host.clientWidth, narrow = width < 620, left = 46, right = narrow ? 8 : 132;
  const tall = narrow ? 200 : 250, low = 62, gap = 34, total = tall + gap + low + 30;
  const time = lines.time_s, x = (t) => left + (t - time[0]) / ((time[time.length - 1] - time[0]) || 1) * (width - left - right);
  const upper = (v) => 10 + (1 - v) * (tall - 10), lower = (v) => tall + gap + (1 - v) * low;
  const root = svg("svg", { viewBox: `0 0 ${width} ${total}`, width, height: total, role: "img", "aria-label": "Hit rates of tenants and Jain's index over time" });
  for (const v of [0, 0.25, 0.5, 0.75, 1]) root.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: upper(v), y2: upper(v) }),
    svg("text", { class: "soft small", x: left - 8, y: upper(v) + 4, "text-anchor": "end" }, percent(v)));
  for (const v of [0, 1]) root.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: lower(v), y2: lower(v) }),
    svg("text", { class: "soft small", x: left - 8, y: lower(v) + 4, "text-anchor": "end" }, v));
  for (const t of ticks(time[0], time[time.length - 1], narrow ? 3 : 7)) root.append(
    svg("text", { class: "soft small", x: x(t), y: total - 6, "text-anchor": "middle" }, span(t)));
  const path = (values, y) => {
    let d = "", open = false;
    values.forEach((v, i) => { if (v == null) { open = false; return; } d += `${open ? "L" : "M"}${x(time[i]).toFixed(1)} ${y(v).toFixed(1)}`; open = true; });
    return d;
  };
  const draw1 = (values, y, colour, weight, opacity = 1, dash = null) => root.append(svg("path", {
    d: path(values, y), fill: "none", stroke: colour, "stroke-width": weight, "stroke-opacity": opacity, "stroke-linejoin": "round", "stroke-dasharray": dash }));
  const names = data.tenants.filter((name) => name in lines.tenants);
  const beside = Math.min(2, 10 / Math.max(1, names.length));  // pixels between equal lines, so that none hides another
  draw1(lines.worst, upper, "var(--bad)", 8, 0.28);
  names.forEach((name, i) => draw1(lines.tenants[name], (v) => upper(v) + (i - (names.length - 1) / 2) * beside, `var(${tenantVar(name)})`, 1.3, 0.9));
  draw1(lines.mean, upper, "var(--ink)", 2.2, 1, "7 4");
  draw1(lines.jain, lower, "var(--accent)", 1.8);
  const final = (values) => { for (let i = values.length - 1; i >= 0; i--) if (values[i] != null) return values[i]; return null; };
  const heavy = [];  // on a narrow page the heavy lines are named in the legend, with their last values
  if (narrow) {
    heavy.push(["mean of tenants", percent(final(lines.mean)), "--ink"], ["worst tenant", percent(final(lines.worst)), "--bad"], ["Jain's index, below", final(lines.jain)?.toFixed(2) ?? "no data", "--accent"]);
  } else {
    const labels = [["mean of tenants", final(lines.mean), "var(--ink)", upper], ["worst tenant", final(lines.worst), "var(--bad)", upper], ["Jain's index", final(lines.jain), "var(--accent)", lower]]
      .filter((l) => l[1] != null).map(([text, v, colour, y]) => ({ text: `${text} ${y === upper ? percent(v) : v.toFixed(2)}`, colour, y: y(v) + 4 })).sort((a, b) => a.y - b.y);
    labels.forEach((l, i) => { if (i && l.y - labels[i - 1].y < 15) l.y = labels[i - 1].y + 15; });
    for (const l of labels) root.append(svg("text", { x: width - right + 8, y: l.y, class: "small", style: `fill:${l.colour}` }, l.text));
  }
  const cursor = svg("line", { y1: 10, y2: tall + gap + low, stroke: "var(--faint)", "stroke-dasharray": "3 3", visibility: "hidden" });
  const catcher = svg("rect", { x: left, y: 0, width: Math.max(1, width - left - right), height: total - 24, fill: "transparent" });
  catcher.addEventListener("pointermove", (e) => {
    const box = root.getBoundingClientRect(), at = (e.clientX - box.left) / box.width * width;
    const i = clamp(Math.round((at - left) / (width - left - right) * (time.length - 1)), 0, time.length - 1);
    cursor.setAttribute("x1", x(time[i])); cursor.setAttribute("x2", x(time[i])); cursor.setAttribute("visibility", "visible");
    showTip(e.clientX, e.clientY, [`at ${span(time[i])}`, `mean ${percent(lines.mean[i])}, worst ${percent(lines.worst[i])}`,
      `Jain ${lines.jain[i] == null ? "no data" : lines.jain[i].toFixed(3)}`, ...names.map((n) => `${n}: ${percent(lines.tenants[n][i])}`)].join("\n"));
  });
  catcher.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); hideTip(); });
  root.append(cursor, catcher);
  const item = (colour, ...words) => html("li", {}, html("i", { class: "line", style: `background:var(${colour})` }), ...words);
  const legend = html("ul", { class: "legend" }, ...heavy.map(([what, last, colour]) => item(colour, `${what}, ${last} at the end`)),
    ...names.map((n) => item(tenantVar(n), html("bdi", {}, n))));
  host.replaceChildren(legend, root);
}

// ---- reasons -------------------------------------------------------------------------------------
const MEANING = {
  "hopeless on arrival": "the time allowed is shorter than the request needs alone on the fastest accelerators",
  "dropped as hopeless": "given up before the deadline, when it could no longer be met",
  "dropped as expired": "given up at the deadline",
  "queueing": "the largest part of the time lost went by waiting, and no idle accelerator would have ended the layer sooner",
  "waiting": "the largest part of the time lost went by waiting; without layers on record (--record all) queueing and holding are not told apart",
  "contention": "the largest part of the time lost went to shared memory bandwidth",
  "slow accelerator": "the largest part of the time lost went to accelerators slower than the best",
  "switching": "the largest part of the time lost went to switching between requests",
  "holding": "the largest part of the time lost went by waiting while an idle accelerator would have ended the layer sooner",
};
function drawReasons() {
  const host = byId("chart-reasons"), policy = data.policies[state.policy], found = data.reasons[policy];
  byId("reasons-note").textContent = `${found.missed.toLocaleString("en")} of ${found.measured.toLocaleString("en")} requests missed under ${policy}, all seeds together. Bars are coloured by tenant.`;
  if (!found.rows.length) return empty(host, "Every deadline was met.");
  const most = Math.max(...found.rows.map((r) => r.count));
  const rows = found.rows.map((r) => {
    const fill = html("div", { class: "fill", style: `width:${(72 * r.count / most).toFixed(2)}%` },
      ...r.tenants.map((n, i) => n ? html("i", { style: `flex:${n};background:var(--t${i % 8})`, title: `${data.tenants[i]}: ${n}` }) : ""));
    const examples = r.examples.map((e) => `eunomia explain ${data.directories[policy]?.[e.seed] ?? "RUN"} req-${e.request}`);
    return html("div", { class: "reason" },
      html("div", { class: "name" }, r.reason),
      html("div", { class: "track" }, fill, html("span", { class: "count" }, `${r.count.toLocaleString("en")}, ${percent(r.count / found.missed)}`)),
      html("div", { class: "try" }, `${MEANING[r.reason] ?? ""}.`, ...examples.slice(0, 1).flatMap((e) => [" Look at one: ", html("code", {}, e)])));
  });
  const used = data.tenants.filter((_, i) => found.rows.some((r) => r.tenants[i]));
  const legend = html("ul", { class: "legend" }, ...used.map((n) => html("li", {}, html("i", { style: `background:var(${tenantVar(n)})` }), n)));
  host.replaceChildren(legend, ...rows);
}

// ---- what ran where: a canvas that pans and zooms ------------------------------------------------
const gantt = data.gantt && (() => {
  const LANE = 30, TOP = 26, host = byId("chart-gantt");
  const length = (data.gantt.to_s - data.gantt.from_s) * 1e9;
  const main = html("canvas", { class: "main", tabindex: "0", role: "application", "aria-label":
    "Layers over time, one row per accelerator. Arrow keys pan and choose a row, plus and minus zoom, comma and full stop step through layers, zero shows everything." });
  const strip = html("canvas", { class: "strip", "aria-hidden": "true" });
  const view = { a: 0, b: length };
  const pick = { lane: 0, at: -1 };
  let now = null, hover = -1, colours = {}, pending = 0;

  function unpack(policy) {
    const raw = data.gantt.policies[policy];
    if (!raw) return null;
    if (raw.ready) return raw;
    const n = raw.start.length, start = new Float64Array(n);
    for (let i = 0, t = 0; i < n; i++) start[i] = (t += raw.start[i]);
    const lanes = data.gantt.lanes.map(() => []);
    raw.lane.forEach((lane, i) => lanes[lane].push(i));
    return Object.assign(raw, { ready: true, begin: start, lanes });
  }
  const gutter = () => main.clientWidth < 620 ? 74 : 118;
  const x = (t) => gutter() + (t - view.a) / (view.b - view.a) * (main.clientWidth - gutter());
  const time = (px) => view.a + (px - gutter()) / (main.clientWidth - gutter()) * (view.b - view.a);
  const missed = (job) => now.jobs.outcome[job] !== 0;
  const at = (ns) => data.gantt.from_s + ns / 1e9;
  const clock = (seconds) => {
    const step = (view.b - view.a) / 1e9 / 6;
    return `${seconds.toFixed(clamp(Math.ceil(-Math.log10(step)) + 0, 0, 9))} s`;
  };

  function resize(canvas, height) {
    const ratio = devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(height * ratio);
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif";
    g.textBaseline = "middle";
    return g;
  }
  function readColours() {
    for (const name of ["--paper", "--card", "--ink", "--soft", "--faint", "--grid", "--line", "--shade", "--bad", "--accent", "--on-bar", ...Array.from({ length: 8 }, (_, i) => `--t${i}`)]) colours[name] = css(name);
  }
  function first(rows, t) {  // first interval of a lane that ends after t
    let low = 0, high = rows.length;
    while (low < high) { const mid = (low + high) >> 1; if (now.begin[rows[mid]] + now.length[rows[mid]] <= t) low = mid + 1; else high = mid; }
    return low;
  }
  function paint() {
    pending = 0;
    const lanes = data.gantt.lanes, height = TOP + lanes.length * LANE + 2, g = resize(main, height), width = main.clientWidth, left = gutter();
    readColours();
    g.fillStyle = colours["--card"]; g.fillRect(0, 0, width, height);
    g.fillStyle = colours["--soft"];
    const from = at(view.a), to = at(view.b);
    for (const t of ticks(from, to, Math.max(2, Math.floor((width - left) / 130)))) {
      const px = x((t - data.gantt.from_s) * 1e9);
      g.fillStyle = colours["--grid"]; g.fillRect(px, TOP - 6, 1, height);
      g.fillStyle = colours["--soft"]; g.textAlign = px > width - 40 ? "right" : px < left + 30 ? "left" : "center"; g.fillText(clock(t), px, 11);
    }
    const focus = hover >= 0 ? now?.job[hover] : pick.at >= 0 ? now?.job[pick.at] : -1;
    lanes.forEach((name, lane) => {
      const y = TOP + lane * LANE;
      g.fillStyle = colours["--grid"]; g.fillRect(0, y + LANE - 1, width, 1);
      if (!now) return;
      g.save(); g.beginPath(); g.rect(left, y, width - left, LANE); g.clip();
      const rows = now.lanes[lane];
      let lastPixel = -1, lastColour = "";
      for (let k = first(rows, view.a); k < rows.length; k++) {
        const i = rows[k], a = x(now.begin[i]);
        if (a > width) break;
        const b = x(now.begin[i] + now.length[i]), w = Math.max(b - a - (b - a > 4 ? 1 : 0), 0.75), job = now.job[i];
        const colour = colours[tenantVar(now.jobs.tenant[job])];
        if (w < 1 && Math.floor(a) === lastPixel && colour === lastColour && focus < 0) continue;
        lastPixel = Math.floor(a); lastColour = colour;
        g.globalAlpha = focus >= 0 && job !== focus ? 0.28 : 1;
        g.fillStyle = colour; g.fillRect(a, y + 4, w, LANE - 9);
        if (missed(job)) { g.fillStyle = colours["--bad"]; g.fillRect(a, y + LANE - 8, w, 3); }
        if (w > 44) {
          g.fillStyle = colours["--on-bar"]; g.textAlign = "left";
          const room = Math.min(b, width) - Math.max(a, left) - 8, label = `req-${now.jobs.request[job]}`;
          const more = `${label} \u00b7 ${layerName(i)}`;
          const text = g.measureText(more).width <= room ? more : g.measureText(label).width <= room ? label : "";
          if (text) g.fillText(text, Math.max(a, left) + 4, y + LANE / 2 - 1);
        }
        if (i === hover || i === pick.at) { g.globalAlpha = 1; g.strokeStyle = colours["--ink"]; g.lineWidth = 2; g.strokeRect(a + 1, y + 5, Math.max(w - 2, 1), LANE - 11); }
      }
      g.restore(); g.globalAlpha = 1;
      g.fillStyle = colours[document.activeElement === main && lane === pick.lane ? "--ink" : "--soft"]; g.textAlign = "left";
      let label = name; while (label.length > 3 && g.measureText(label).width > left - 10) label = label.slice(0, -2) + "\u2026";
      g.fillText(label, 2, y + LANE / 2 - 1);
    });
    paintStrip();
  }
  function paintStrip() {
    const g = resize(strip, 58), width = strip.clientWidth, left = gutter(), base = 44;
    g.fillStyle = colours["--card"]; g.fillRect(0, 0, width, 58);
    if (!now) return;
    const most = Math.max(1, ...now.waiting), px = (t) => left + t / length * (width - left);
    g.fillStyle = colours["--soft"]; g.textAlign = "left"; g.fillText(gutter() < 100 ? "waiting" : "layers waiting", 2, 16); g.fillText(`at most ${most}`, 2, 32);
    g.beginPath(); g.moveTo(left, base);
    now.waiting.forEach((n, i) => g.lineTo(px(i / (now.waiting.length - 1) * length), base - n / most * 36));
    g.lineTo(width, base); g.closePath(); g.globalAlpha = 0.45; g.fillStyle = colours["--accent"]; g.fill(); g.globalAlpha = 1;
    const a = px(view.a), b = px(view.b);
    g.fillStyle = colours["--ink"]; g.globalAlpha = 0.08; g.fillRect(left, 2, a - left, base - 2); g.fillRect(b, 2, width - b, base - 2); g.globalAlpha = 1;
    g.strokeStyle = colours["--ink"]; g.lineWidth = 1.2; g.strokeRect(a + 0.6, 2.6, Math.max(3, b - a - 1.2), base - 2);
    g.fillStyle = colours["--soft"]; g.textAlign = "left"; g.fillText(`${at(0).toFixed(3)} s`, left, 52); g.textAlign = "right"; g.fillText(`${at(length).toFixed(3)} s`, width, 52);
  }
  const redraw = () => { if (!pending) pending = requestAnimationFrame(paint); };
  function look(a, b) {
    const size = clamp(b - a, Math.max(200, length * 1e-6), length), start = clamp(a, 0, length - size);
    view.a = start; view.b = start + size; redraw();
  }
  function zoom(factor, px = null) {
    const centre = px == null ? (view.a + view.b) / 2 : time(px);
    look(centre - (centre - view.a) * factor, centre + (view.b - centre) * factor);
  }
  const pan = (share) => look(view.a + share * (view.b - view.a), view.b + share * (view.b - view.a));
  function layerName(i) {
    return data.layers[now.jobs.model[now.job[i]]]?.[now.layer[i]] ?? `layer ${now.layer[i]}`;
  }
  function describe(i) {
    const job = now.job[i], took = now.length[i], stretch = Math.max(0, took - now.work[i] - now.switch[i]);
    const outcome = ["hit", "late", "dropped", "unfinished"][now.jobs.outcome[job]];
    const due = now.jobs.deadline[job], end = now.jobs.finish[job];
    const by = due == null ? "no deadline" : end == null ? "" : `${span(Math.abs(end - due) / 1e9)} ${end <= due ? "to spare" : "too late"}`;
    const parts = [`${span(now.work[i] / 1e9)} service`, stretch > 500 ? `${span(stretch / 1e9)} contention` : "", now.switch[i] ? `${span(now.switch[i] / 1e9)} switching` : ""].filter(Boolean);
    return [`req-${now.jobs.request[job]} of ${now.jobs.tenant[job]} (${now.jobs.model[job]})`,
      `layer ${now.layer[i]}, ${layerName(i)}, on ${data.gantt.lanes[now.lane[i]]}`,
      `from ${at(now.begin[i]).toFixed(6)} s, ${span(took / 1e9)}: ${parts.join(", ")}`,
      `this layer had waited ${span(now.waited[i] / 1e9)}`, `request: ${outcome}${by ? `, ${by}` : ""}`].join("\n");
  }
  function under(e) {
    const box = main.getBoundingClientRect(), lane = Math.floor((e.clientY - box.top - TOP) / LANE), px = e.clientX - box.left;
    if (!now || lane < 0 || lane >= data.gantt.lanes.length || px < gutter()) return -1;
    const rows = now.lanes[lane], t = time(px), slack = (view.b - view.a) / main.clientWidth * 2;
    const i = rows[first(rows, t - slack)];
    return i != null && now.begin[i] <= t + slack ? i : -1;
  }
  function choose(i) {
    pick.at = i;
    if (i >= 0) {
      const a = now.begin[i], b = a + now.length[i], size = view.b - view.a;
      if (a < view.a || b > view.b) look((a + b - size) / 2, (a + b + size) / 2);
      byId("gantt-live").textContent = describe(i).split("\n").join("; ");
    } else byId("gantt-live").textContent = "";
    redraw();
  }
  function stepTo(direction) {
    const rows = now?.lanes[pick.lane] ?? [];
    if (!rows.length) return;
    const k = rows.indexOf(pick.at);
    choose(rows[k < 0 ? Math.min(first(rows, view.a), rows.length - 1) : clamp(k + direction, 0, rows.length - 1)]);
  }
  function bind() {
    const touches = new Map(); let grab = null, pinch = null;
    main.addEventListener("pointerdown", (e) => {
      touches.set(e.pointerId, e.clientX); main.setPointerCapture(e.pointerId);
      if (touches.size === 2) { const [p, q] = [...touches.values()]; pinch = { gap: Math.abs(p - q) || 1, a: view.a, b: view.b, centre: time((p + q) / 2 - main.getBoundingClientRect().left) }; grab = null; }
      else grab = { x: e.clientX, a: view.a, b: view.b, moved: false };
    });
    main.addEventListener("pointermove", (e) => {
      if (touches.has(e.pointerId)) touches.set(e.pointerId, e.clientX);
      if (pinch && touches.size === 2) {
        const [p, q] = [...touches.values()], factor = pinch.gap / (Math.abs(p - q) || 1);
        return look(pinch.centre - (pinch.centre - pinch.a) * factor, pinch.centre + (pinch.b - pinch.centre) * factor);
      }
      if (grab) {
        const by = (e.clientX - grab.x) / (main.clientWidth - gutter()) * (grab.b - grab.a);
        if (Math.abs(e.clientX - grab.x) > 3) { grab.moved = true; main.classList.add("dragging"); hideTip(); }
        if (grab.moved) return look(grab.a - by, grab.b - by);
      }
      const i = under(e);
      if (i !== hover) { hover = i; redraw(); }
      if (i >= 0) showTip(e.clientX, e.clientY, describe(i)); else hideTip();
    });
    const release = (e) => {
      if (grab && !grab.moved && e.type === "pointerup") { const i = under(e); if (i >= 0) pick.lane = now.lane[i]; choose(i); }
      touches.delete(e.pointerId); if (touches.size < 2) pinch = null; grab = null; main.classList.remove("dragging");
    };
    main.addEventListener("pointerup", release);
    main.addEventListener("pointercancel", release);
    main.addEventListener("pointerleave", () => { hover = -1; hideTip(); redraw(); });
    main.addEventListener("dblclick", (e) => zoom(0.4, e.clientX - main.getBoundingClientRect().left));
    main.addEventListener("wheel", (e) => {
      if (e.ctrlKey || e.metaKey) { e.preventDefault(); zoom(Math.exp(e.deltaY * 0.004), e.clientX - main.getBoundingClientRect().left); }
      else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) { e.preventDefault(); pan(e.deltaX / main.clientWidth); }
    }, { passive: false });
    main.addEventListener("keydown", (e) => {
      const act = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6),
        0: () => look(0, length), Home: () => look(0, length), ".": () => stepTo(1), ",": () => stepTo(-1), Escape: () => choose(-1),
        ArrowUp: () => { pick.lane = clamp(pick.lane - 1, 0, data.gantt.lanes.length - 1); redraw(); },
        ArrowDown: () => { pick.lane = clamp(pick.lane + 1, 0, data.gantt.lanes.length - 1); redraw(); } }[e.key];
      if (act && !e.ctrlKey && !e.metaKey && !e.altKey) { e.preventDefault(); act(); }
    });
    main.addEventListener("focus", redraw); main.addEventListener("blur", redraw);
    const jump = (e) => {
      const box = strip.getBoundingClientRect(), t = (e.clientX - box.left - gutter()) / (box.width - gutter()) * length, half = (view.b - view.a) / 2;
      look(t - half, t + half);
    };
    strip.addEventListener("pointerdown", (e) => { strip.setPointerCapture(e.pointerId); jump(e); });
    strip.addEventListener("pointermove", (e) => { if (e.buttons) jump(e); });
    const button = (text, label, action) => { const b = html("button", { type: "button", "aria-label": label }, text); b.addEventListener("click", action); return b; };
    byId("gantt-tools").append(button("+", "Zoom in", () => zoom(0.5)), button("\u2212", "Zoom out", () => zoom(2)),
      button("\u2190", "Earlier", () => pan(-0.4)), button("\u2192", "Later", () => pan(0.4)), button("Everything", "Everything: show the whole window", () => look(0, length)));
    byId("gantt-hint").textContent = "Drag to move, Ctrl + wheel or pinch to zoom, click a layer to keep it. Keys: arrows, + and \u2212, comma and full stop step through the layers of a row. A red edge marks requests that missed their deadline.";
  }
  function openAtTheCrowd() {  // some sixty layers per row, around the moment when most layers waited
    const size = Math.min(length, length * 60 * data.gantt.lanes.length / Math.max(1, now.begin.length));
    const peak = now.waiting.indexOf(Math.max(...now.waiting)) / (now.waiting.length - 1) * length;
    look(peak - size / 2, peak + size / 2);
  }
  let opened = false;
  function draw() {
    now = unpack(data.policies[state.policy]);
    if (now && !opened) { opened = true; openAtTheCrowd(); }
    hover = pick.at = -1;
    byId("gantt-live").textContent = "";
    const g = data.gantt, whole = g.whole ? "the whole run" : `the ${span(g.to_s - g.from_s)} from ${g.from_s.toFixed(3)} s, chosen because most deadlines were missed in them; the data holds the rest`;
    const cut = now?.left_out ? ` ${now.left_out.toLocaleString("en")} layers at its end are left out.` : "";
    const idle = g.lanes.filter((_, lane) => now && !now.lanes[lane].length);
    const why = now?.held == null ? "" : ` In ${percent(now.held)} of the time that layers waited here, an idle accelerator would have ended them sooner: holding.${now.held > 0.995 ? "" : " The rest is queueing."}`;
    const none = idle.length ? ` ${now.left_out || !g.whole ? "None of these layers" : "Nothing"} ran on ${idle.join(", ")}.` : "";
    byId("gantt-note").textContent = now ? `One row per accelerator, one block per layer, coloured by tenant. Seed ${data.seed}, ${whole}: ${now.begin.length.toLocaleString("en")} of ${now.total.toLocaleString("en")} layers.${cut}${none}${why}` : "This policy has no recorded layers.";
    redraw();
  }
  const legend = html("ul", { class: "legend" }, ...data.tenants.map((n) => html("li", {}, html("i", { style: `background:var(${tenantVar(n)})` }), html("bdi", {}, n))));
  host.append(legend, main, strip);
  bind();
  return { draw, redraw, paint, view };
})();

// ---- all together --------------------------------------------------------------------------------
function drawFigures() { hideTip(); drawSlo(); drawSplit(); drawFairness(); drawReasons(); }
function draw() {
  drawFigures();
  if (gantt) gantt.draw(); else { byId("gantt-note").textContent = ""; empty(byId("chart-gantt"), data.no_gantt); }
}
buildPicker();
draw();
let drawnWidth = byId("chart-slo").clientWidth, timer = 0;
new ResizeObserver(() => {
  if (byId("chart-slo").clientWidth === drawnWidth) return;
  clearTimeout(timer);
  timer = setTimeout(() => { drawnWidth = byId("chart-slo").clientWidth; showChosen(); drawFigures(); gantt?.redraw(); }, 60);
}).observe(byId("chart-slo"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => gantt && gantt.redraw());
document.documentElement.dataset.drawn = "yes";
window.eunomiaReport = { data, gantt };
})();
