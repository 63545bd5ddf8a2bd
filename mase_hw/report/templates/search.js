"use strict";
const found = JSON.parse(document.getElementById("data").textContent);
const names = [...found.against, found.criterion];
const of = (point, name) => (name === found.criterion ? point.score : point.measures[name]);
const [plot, panel, table] = ["plot", "panel", "front"].map((id) => document.getElementById(id));
const [x, y, log, all] = ["x", "y", "log", "all"].map((id) => document.getElementById(id));
let chosen = null;

function add(parent, kind, given, text) {
  const made = parent.namespaceURI.endsWith("svg")
    ? document.createElementNS(parent.namespaceURI, kind) : document.createElement(kind);
  for (const [key, value] of Object.entries(given)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

function scale(values, from, to, logarithmic) {
  const by = logarithmic && values.every((v) => v > 0) ? Math.log10 : (v) => v;
  const low = Math.min(...values.map(by)), span = Math.max(...values.map(by)) - low || 1;
  const back = by === Math.log10 ? (v) => 10 ** v : (v) => v;
  return { at: (v) => from + ((by(v) - low) / span) * (to - from), tick: (i) => back(low + (span * i) / 4) };
}

function choose(point) {
  chosen = point.digest;
  panel.replaceChildren();
  const measured = Object.entries(point.measures).map(([name, value]) => `${name} ${value.toLocaleString("en")}`);
  add(panel, "b", {}, `trial ${point.number + 1}, ${point.digest}`);
  add(panel, "p", {}, `${found.criterion} ${point.score}, ${measured.join(", ")}`);
  add(panel, "pre", {}, Object.entries(point.chosen).map(([name, value]) => `${name} = ${value}`).join("\n"));
  draw();
}

function draw() {
  const shown = found.points.filter((p) => p.front || all.checked);
  plot.replaceChildren();
  if (!shown.length) return;
  const across = scale(shown.map((p) => of(p, x.value)), 70, 880, log.checked);
  const up = scale(shown.map((p) => of(p, y.value)), 420, 20, false);
  for (let i = 0; i <= 4; i++) {
    const [a, b] = [across.tick(i), up.tick(i)];
    add(plot, "line", { x1: 70, x2: 880, y1: up.at(b), y2: up.at(b) });
    add(plot, "text", { x: 64, y: up.at(b) + 4, "text-anchor": "end" }, Number(b.toPrecision(4)).toLocaleString("en"));
    add(plot, "text", { x: across.at(a), y: 440, "text-anchor": "middle" }, Number(a.toPrecision(4)).toLocaleString("en"));
  }
  add(plot, "text", { x: 475, y: 456, "text-anchor": "middle" }, x.value);
  add(plot, "text", { x: 70, y: 12 }, y.value);
  for (const point of [...shown].sort((a, b) => a.front - b.front)) {
    const classes = [point.front && "front", point.exact && "exact", point.digest === chosen && "chosen"];
    const dot = add(plot, "circle", { cx: across.at(of(point, x.value)), cy: up.at(of(point, y.value)),
      r: point.front ? 6 : 4, class: classes.filter(Boolean).join(" ") });
    add(dot, "title", {}, names.map((name) => `${name} ${of(point, name)}`).join("\n"));
    dot.addEventListener("click", () => choose(point));
  }
  for (const row of table.rows) row.className = row.dataset.digest === chosen ? "chosen" : "";
}

const head = add(table, "tr", {});
for (const name of names) add(head, "th", { class: "number" }, name);
for (const point of found.points.filter((p) => p.front).sort((a, b) => of(a, names[0]) - of(b, names[0]))) {
  const row = add(table, "tr", { "data-digest": point.digest });
  for (const name of names) add(row, "td", { class: "number" }, of(point, name).toLocaleString("en", { maximumFractionDigits: 4 }));
  row.addEventListener("click", () => choose(point));
}
for (const name of names) for (const axis of [x, y]) add(axis, "option", {}, name);
x.value = found.against[Math.min(1, found.against.length - 1)];
y.value = found.criterion;
for (const control of [x, y, log, all]) control.addEventListener("change", draw);
draw();
