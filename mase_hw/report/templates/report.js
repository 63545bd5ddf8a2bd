"use strict";
const root = document.documentElement;
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const asked = new URLSearchParams(location.search).get("theme");
root.dataset.theme = asked === "dark" || asked === "light" ? asked : dark.matches ? "dark" : "light";
document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
});

const nodes = JSON.parse(document.getElementById("nodes").textContent);
const panel = document.getElementById("panel");

function line(table, name, text) {
  const row = table.insertRow();
  const head = document.createElement("th");
  head.textContent = name;
  row.append(head);
  const cell = row.insertCell();
  cell.className = "mono";
  cell.textContent = text;
}

function show(name, group) {
  const node = nodes[name];
  if (!node || !panel) return;
  document.querySelectorAll(".net .chosen").forEach((each) => each.classList.remove("chosen"));
  group.classList.add("chosen");
  panel.replaceChildren();
  const title = document.createElement("h3");
  title.textContent = `${name}: ${node.op}`;
  const table = document.createElement("table");
  node.rows.forEach(([label, text, format]) => line(table, label, `${text} ${format}`.trim()));
  if (node.instances.length) {
    line(table, "instances", node.instances.join(", "));
    line(table, "cycles per frame", node.cycles.toLocaleString("en"));
    line(table, "multipliers", node.multipliers.toLocaleString("en"));
    line(table, "bits of memory", node.memory_bits.toLocaleString("en"));
  }
  node.details.forEach((text) => line(table, "", text));
  panel.append(title, table);
  if (node.explanation) {
    const why = document.createElement("pre");
    why.textContent = node.explanation;
    panel.append(why);
  }
}

document.querySelectorAll(".net [id^='node-']").forEach((group) => {
  const name = group.id.slice("node-".length);
  group.setAttribute("tabindex", "0");
  group.setAttribute("role", "button");
  group.addEventListener("click", () => show(name, group));
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); show(name, group); }
  });
});

// A wide picture begins where the network does.
const net = document.querySelector(".net");
const begin = net && net.querySelector("[id^='node-']");
if (begin) {
  const box = net.getBoundingClientRect(), at = begin.getBoundingClientRect();
  net.scrollLeft += at.left + at.width / 2 - box.left - box.width / 2;
}
