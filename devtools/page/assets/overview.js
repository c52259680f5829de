// What a person wants to know first: what is wrong, which lines are slow, what fills the memory and the file.
import { bytes, count, make, time } from "./dom.js";

const TOP = 7;
const SLOW = 4;
const MEMORY_TOP = 3;

function card(title, note, ...children) {
  return make("section", "card", make("h2", "", title, make("span", "muted", note)), ...children);
}

/** A line of a card: a bar, a number, a text; hovering lights its origins. */
function entry(on, origins, share, value, text, below, title) {
  const button = make(
    "button",
    "entry",
    make("span", "value", value),
    make("span", "what", text, below ? make("small", "", below) : null),
  );
  button.style.setProperty("--share", `${Math.max(1, Math.round(100 * share))}%`);
  button.title = title || text;
  button.addEventListener("pointerenter", () => on.hover(origins, null, null));
  button.addEventListener("pointerleave", () => on.hover([], null, null));
  button.addEventListener("click", () => on.pin(origins, null, null));
  return button;
}

/** Where a name is too long its end says more than its beginning. */
const tail = (text, most = 34) => (text.length > most ? `…${text.slice(1 - most)}` : text);

function findings(model, on) {
  const rows = model.data.findings;
  if (!rows.length) return null;
  const list = rows.map(([severity, text, origins]) => {
    const button = make("button", `finding ${severity}`, make("span", "mark", severity === "error" ? "✗" : "!"), text);
    button.addEventListener("pointerenter", () => on.hover(origins, null, null));
    button.addEventListener("pointerleave", () => on.hover([], null, null));
    button.addEventListener("click", () => on.pin(origins, null, null));
    return button;
  });
  return card("What is wrong", "", ...list);
}

function slow(model, method, on) {
  const profile = model.data.profiles[method];
  if (!profile) return null;
  const most = profile.lines.length ? profile.lines[0][2] || 1 : 1;
  const list = profile.lines.slice(0, TOP).map(([key, spent, share, paths, operators, origins]) => {
    const short = key.replace(/^.*\//, "");
    const below = [paths.length > 1 ? `${paths[0]} and more` : paths[0], operators[0]].filter(Boolean).join(" · ");
    return entry(on, origins, share / most, `${share.toFixed(1)} %`, tail(short), below, `${key}: ${time(spent)}`);
  });
  const rest = profile.lines.length - TOP;
  if (rest > 0) list.push(make("p", "muted", `and ${count(rest, "more line", "more lines")}`));
  const spread = profile.runs > 1 ? `${count(profile.runs, "run")}, p10 ${time(profile.p10)}, p90 ${time(profile.p90)}` : "one run";
  const made = card("Slowest lines", `${time(profile.total)} a run`, ...list);
  made.title = spread;
  return made;
}

/** Instructions and operations inside of delegates. */
function slowOperations(model, method, on) {
  const parts = model.parts.filter((part) => part.method === method && part.ms).sort((a, b) => b.ms - a.ms || a.index - b.index);
  if (!parts.length) return null;
  const table = model.instructions[method];
  const list = parts.slice(0, SLOW).map((part) => {
    const name = part.label || (part.level ? part.level.opName(part.row) : table.operators[table.operator[part.index]]);
    const origin = [...part.origins].find((o) => model.where(o));
    const places = origin === undefined ? [] : [model.path(origin), model.where(origin).replace(/^.*\//, "")];
    const below = [`instruction ${part.index}`, ...places.filter(Boolean)].join(" · ");
    return entry(on, part.origins, part.ms / parts[0].ms, time(part.ms), name.replace(/^aten::/, ""), below, name);
  });
  return card("Slowest instructions", `of ${parts.length.toLocaleString("en")}`, ...list);
}

function memory(model, method, on) {
  const plan = model.data.memory[method];
  if (!plan) return null;
  const total = plan.pools.slice(1).reduce((a, b) => a + b, 0);
  const cards = [];
  for (const [pool, bound] of Object.entries(plan.bounds)) {
    const size = plan.pools[Number(pool)] || 1;
    const alive = [...bound.alive].sort((a, b) => plan.bytes[b] - plan.bytes[a] || a - b);
    for (const index of alive.slice(0, MEMORY_TOP)) {
      const origins = model.memoryOrigins(method, index);
      const where = [...new Set([...origins].map((o) => model.where(o).replace(/^.*\//, "")).filter(Boolean))];
      const state = plan.state[index];
      cards.push(
        entry(on, origins, plan.bytes[index] / size, bytes(plan.bytes[index]), tail(`%${plan.name[index]}`), tail(state ? `state ${state}` : where.join(", ") || plan.type[index], 44)),
      );
    }
    if (alive.length > MEMORY_TOP) cards.push(make("p", "muted", `and ${alive.length - MEMORY_TOP} more alive at instruction ${bound.peak}`));
  }
  if (!cards.length) return total ? card("Memory", bytes(total)) : null;
  return card("Memory at its peak", `${bytes(total)} planned`, ...cards);
}

function file(model, on) {
  const sizes = model.data.sizes;
  if (!sizes.length || model.et < 0) return null;
  const level = model.levels[model.et];
  const total = sizes.reduce((sum, [, size]) => sum + size, 0);
  const list = sizes
    .slice(0, MEMORY_TOP)
    .map(([name, size, row]) => entry(on, level.origins.row(row), size / sizes[0][1], bytes(size), tail(name), ""));
  if (sizes.length > MEMORY_TOP) list.push(make("p", "muted", `and ${sizes.length - MEMORY_TOP} more`));
  return card("Constants in the file", bytes(total), ...list);
}

/** Without a profile: what the program consists of. */
function operators(model, method, on) {
  const table = model.instructions[method];
  if (!table || model.data.profiles[method]) return null;
  const found = new Map();
  table.operator.forEach((op, index) => {
    const name = table.delegate[index] === null ? table.operators[op] : "delegates";
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(index);
  });
  const rows = [...found].sort((a, b) => b[1].length - a[1].length);
  const list = rows.slice(0, TOP).map(([name, indices]) => {
    const origins = [...new Set(indices.flatMap((index) => [...table.origins.row(index)]))];
    return entry(on, origins, indices.length / rows[0][1].length, String(indices.length), tail(name), "");
  });
  if (rows.length > TOP) list.push(make("p", "muted", `and ${rows.length - TOP} more operators`));
  return card("Instructions", count(table.row.length, "instruction"), ...list);
}

export function overview(model, method, on) {
  const cards = [findings, slow, memory, slowOperations, operators, file].map((build) => build(model, method, on));
  return cards.filter(Boolean);
}

/** Passes with what they changed; those that changed nothing are gray. */
export function passList(model, choose) {
  const { passes } = model.data;
  return passes.map((entry, index) => {
    const changed = entry.gone + entry.new + entry.changed;
    const button = make(
      "button",
      `pass${changed ? "" : " idle"}${entry.outcome ? " failed" : ""}`,
      make("span", "num", String(index + 1)),
      make("span", "what", entry.name),
      entry.gone ? make("span", "gone", `−${entry.gone}`) : null,
      entry.new ? make("span", "new", `+${entry.new}`) : null,
      entry.changed ? make("span", "changed", `~${entry.changed}`) : null,
    );
    button.title = entry.ms === null ? entry.text : `${entry.text}: ${entry.ms.toFixed(1)} ms`;
    button.addEventListener("click", () => choose(index));
    return button;
  });
}
