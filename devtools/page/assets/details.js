// What is known of what is under the pointer or pinned: operations of the program, values, buffers, passes.
import { bytes, count, highlight, make, time } from "./dom.js";

const MOST = 6;

function field(name, ...value) {
  return make("div", "field", make("dt", "", name), make("dd", "", ...value));
}

function code(text) {
  const element = make("code", "line");
  highlight(element, text);
  element.title = text;
  return element;
}

/** Of a row of a level, of origins, of a buffer: elements. */
export function detailsOf(model, method, origins, at) {
  const parts = [];
  if (at && at.level) {
    const { level, row } = at;
    parts.push(make("h3", "", level.name), code(level.lines[level.line[row]].trim()));
    if (level.ms && level.ms[row]) parts.push(field("time", time(level.ms[row])));
    if (level.bytes[row]) parts.push(field("results", bytes(level.bytes[row])));
    if (level.partition && level.partition[row]) parts.push(field("delegate", level.partitions[level.partition[row]]));
    const instruction = level.instruction ? level.instruction[row] : -1;
    if (instruction >= 0) parts.push(field("instruction", String(instruction)), ...valuesOf(model, method, instruction));
  }
  if (at && at.buffer !== undefined) {
    const plan = model.data.memory[at.method];
    const live = plan.live[at.buffer].map(([a, b]) => `${a} to ${b}`).join(", ");
    parts.push(
      make("h3", "", `buffer %${plan.name[at.buffer]}`),
      field("type", plan.type[at.buffer]),
      field("bytes", `${plan.bytes[at.buffer].toLocaleString("en")} at ${plan.offset[at.buffer].toLocaleString("en")}`),
      field("alive", live),
    );
  }
  const list = [...origins];
  if (list.length > MOST && !(at && at.level)) parts.push(make("p", "muted", count(list.length, "operation of the program", "operations of the program")));
  for (const origin of list.slice(0, MOST)) parts.push(originOf(model, method, origin));
  if (list.length > MOST) parts.push(make("p", "muted", `and ${list.length - MOST} more`));
  return parts;
}

function originOf(model, method, origin) {
  const o = model.origins;
  const block = make("div", "origin", make("h3", "", o.ops[o.op[origin]], make("span", "muted", ` ${o.name[origin]}`)));
  const where = model.where(origin);
  if (where) block.append(field("line", where));
  if (model.path(origin)) block.append(field("module", model.path(origin)));
  const spent = model.originMs[origin];
  if (spent) block.append(field("time", `${time(spent)}, ${((100 * spent) / model.totalMs).toFixed(1)} %`));
  const error = model.originError.get(origin);
  if (error) {
    const text = `${error.error.toExponential(1)} at ${error.level}${error.wrong ? " ✗" : ""}`;
    block.append(field("difference", make("span", error.wrong ? "bad" : "", text)));
  }
  return block;
}

function valuesOf(model, method, instruction) {
  const rows = (model.data.values[method] || []).filter((row) => row[0] === instruction);
  return rows.slice(0, 3).map(([, , dtype, shape, low, high, mean, missing]) => {
    const range = low === null ? "" : `${low} to ${high}, mean ${mean}`;
    const nan = missing ? make("span", "bad", ` ${missing.toLocaleString("en")} NaN`) : null;
    return field("value", `${dtype}[${shape.join("×")}] ${range}`, nan);
  });
}

/** The changes of a pass: red what is gone, green what is new, amber what changed. */
export function passDetails(model, index, on) {
  const entry = model.data.passes[index];
  const rewrites = Object.entries(entry.rewrites).sort((a, b) => b[1] - a[1]);
  const parts = [
    make("h3", "", `pass ${index + 1} of ${model.data.passes.length}: ${entry.name}`),
    entry.text !== entry.name ? make("p", "muted", entry.text) : null,
    rewrites.length ? make("p", "muted", rewrites.slice(0, 8).map(([name, n]) => `${name} ${n}×`).join(", ")) : null,
  ];
  const total = entry.gone + entry.new + entry.changed + entry.missed;
  if (!total) parts.push(make("p", "muted", "It changed nothing."));
  for (const [kind, before, after, origins, pattern] of entry.rows) {
    const row = make("div", `change ${kind}`);
    if (before) row.append(code(before));
    row.append(code(after));
    if (pattern) row.append(make("small", "muted", String(pattern)));
    row.addEventListener("pointerenter", () => on.hover(origins, null, null, true));
    row.addEventListener("pointerleave", () => on.hover([], null, null, true));
    row.addEventListener("click", () => on.pin(origins, null, null, true));
    parts.push(row);
  }
  if (entry.rows.length < total) parts.push(make("p", "muted", "The trace has the rest."));
  return parts.filter(Boolean);
}

export const HELP = [
  ["/", "search: text of an operation, a name, a module, file.py:41, or /regular expression/"],
  ["hover, click", "light what belongs together in every pane; keep it"],
  ["Esc", "let it go"],
  ["j k", "next and previous operation of the pane"],
  ["[ ]", "previous and next level"],
  ["n p", "next and previous pass"],
  ["g", "the level as a graph, and back"],
  ["t", "light and dark"],
  ["wheel, drag", "zoom and move the strips below; double-click shows all"],
];
