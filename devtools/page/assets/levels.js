// The panes of text: a level, the sources, the tree of modules.
import { highlight, highlightPython, make, ms, unit } from "./dom.js";
import { heightOf, List } from "./list.js";
import { DECLARES } from "./model.js";

const WIDEST = 500;
const HOT = 400;

/** The hottest lines for the marks beside a list. */
function hottest(times) {
  const found = [];
  let most = 0;
  for (const [line, time] of times) most = Math.max(most, time);
  if (!most) return null;
  for (const [line, time] of times) if (time > most / 50) found.push([line, time / most]);
  return found.sort((a, b) => b[1] - a[1]).slice(0, HOT);
}

function widest(lines) {
  let most = 0;
  for (const line of lines) if (line.length > most) most = line.length;
  return Math.min(most, WIDEST);
}

/** Elements of a row that stay when it is used for another line. */
function cells(row, timed) {
  if (!row.firstChild) {
    row.append(make("span", "num"));
    if (timed) row.append(make("span", "time"));
    row.append(make("span", "text"));
  }
  return row.children;
}

function showTime(cell, time, most) {
  cell.textContent = time ? ms(time) : "";
  cell.style.setProperty("--share", time && most ? `${Math.max(2, Math.round((100 * time) / most))}%` : "0%");
  cell.classList.toggle("hot", Boolean(most) && time > most * 0.6);
}

export class LevelPane {
  /** @param on what hovering and clicking call */
  constructor(level, on) {
    this.level = level;
    this.on = on;
    this.most = level.ms ? level.ms.reduce((a, b) => Math.max(a, b), 0) : 0;
    this.colorOf = null;
    this.list = new List(`level ${level.name}`, level.lines.length, (element, index) => this.#fill(element, index));
    this.list.inner.style.width = `calc(${widest(level.lines)}ch + 130px)`;
    if (level.ms) {
      const times = [];
      level.ms.forEach((time, row) => time && times.push([level.line[row], time]));
      this.list.heat = hottest(times);
    }
    this.list.scroller.addEventListener("pointerover", (event) => {
      const row = this.rowAt(this.list.at(event));
      if (row >= 0) on.hover(this.originsOf(row), this, { level, row });
      else on.hover([], this, null);
    });
    this.list.scroller.addEventListener("pointerleave", () => on.hover([], this, null));
    this.list.scroller.addEventListener("click", (event) => {
      const row = this.rowAt(this.list.at(event));
      if (row < 0) return;
      this.list.select(level.line[row]);
      on.pin(this.originsOf(row), this, { level, row });
    });
    this.list.scroller.addEventListener("focus", () => on.focus(this));
    const inside = level.kind === "delegate" ? "inside" : "";
    const ops = level.op.reduce((n, op) => n + (level.isStructure[op] ? 0 : 1), 0);
    this.graphButton = make("button", "small", "graph");
    this.graphButton.title = "draw this level as a graph (g)";
    this.head = make(
      "header",
      "",
      make("b", "", level.name),
      make("span", "muted", `${ops.toLocaleString("en")} ops ${inside}`),
      make("span", "grow"),
      level.ms ? make("span", "muted", unit()) : null,
      this.graphButton,
    );
    this.body = make("div", "body", this.list.element);
    this.element = make("section", "pane", this.head, this.body);
    this.started = false;
  }

  /** After it is in the page: begin at the method that is shown. */
  start() {
    if (this.started) return;
    this.started = true;
    this.list.top(this.level.begin);
    this.list.update();
  }

  rowAt(line) {
    return line < 0 ? -1 : this.level.rowOfLine[line];
  }

  originsOf(row) {
    return this.level.structure(row) ? [] : this.level.origins.row(row);
  }

  #fill(element, index) {
    const { level } = this;
    const row = level.rowOfLine[index];
    const timed = level.ms !== null;
    const found = cells(element, timed);
    const instruction = level.instruction && row >= 0 ? level.instruction[row] : -1;
    found[0].textContent = level.instruction ? (instruction >= 0 ? String(instruction) : "") : String(index + 1);
    if (timed) showTime(found[1], row >= 0 ? level.ms[row] : 0, this.most);
    highlight(found[timed ? 2 : 1], level.lines[index]);
    const wrong = level.wrong && row >= 0 ? level.wrong[row] : 0;
    element.classList.toggle("wrong", wrong === 2);
    element.style.setProperty("--stripe", (row >= 0 && this.colorOf && this.colorOf(level, row)) || "transparent");
  }

  light(origins, still) {
    this.list.light(this.level.rowsOf(origins).map((row) => this.level.line[row]), still);
  }

  /** Go up or down to the next operation. */
  step(by) {
    const { line } = this.level;
    const now = this.list.current;
    let row = now < 0 ? -1 : this.level.rowOfLine[now];
    if (row < 0) row = line.findIndex((at) => at >= this.list.scroller.scrollTop / 18) - by;
    row = Math.max(0, Math.min(line.length - 1, row + by));
    this.list.select(line[row]);
    this.list.show(line[row]);
    this.on.pin(this.originsOf(row), this, { level: this.level, row });
  }
}

const WHOLE = 400;
const AROUND = 8;

/** Source files one after the other, those that took longest first; of long ones what is around cited lines. */
export class SourcePane {
  constructor(model, on) {
    this.model = model;
    this.rows = [];
    this.indexOf = new Map();
    this.times = new Map();
    const { data } = model;
    const cited = data.files.map(() => new Map());
    const spent = data.files.map(() => 0);
    for (const [key, origins] of model.linesOf) {
      const [file, line] = key.split(":").map(Number);
      const time = origins.reduce((sum, origin) => sum + model.originMs[origin], 0);
      cited[file].set(line, origins);
      spent[file] += time;
      this.times.set(key, time);
    }
    const order = data.files.map((_, i) => i).sort((a, b) => spent[b] - spent[a] || cited[b].size - cited[a].size || a - b);
    for (const file of order) this.#addFile(file, cited[file], data.files[file]);
    this.most = Math.max(0, ...this.times.values());
    this.list = new List("source", this.rows.length, (element, index) => this.#fill(element, index));
    this.list.inner.style.width = `calc(${widest(this.rows.map((row) => row.text))}ch + 130px)`;
    this.list.heat = hottest(
      [...this.times].filter(([key]) => this.indexOf.has(key)).map(([key, time]) => [this.indexOf.get(key), time]),
    );
    this.list.scroller.addEventListener("pointerover", (event) => on.hover(this.#origins(this.list.at(event)), this, null));
    this.list.scroller.addEventListener("pointerleave", () => on.hover([], this, null));
    this.list.scroller.addEventListener("click", (event) => {
      const index = this.list.at(event);
      if (this.#origins(index).length) on.pin(this.#origins(index), this, null);
    });
    const names = data.files.length === 1 ? data.files[0].name : `${data.files.length} files`;
    this.element = make(
      "section",
      "pane source",
      make("header", "", make("b", "", "source"), make("span", "muted", names)),
      make("div", "body", this.list.element),
    );
    this.started = false;
  }

  get empty() {
    return this.rows.length === 0;
  }

  /** Whether the text of any file is there. */
  get hasText() {
    return this.model.data.files.some(({ text }) => text !== null);
  }

  #addFile(file, cited, { name, text }) {
    this.rows.push({ kind: "file", text: name });
    const lines = [...cited.keys()].sort((a, b) => a - b);
    const add = (line, content) => {
      this.indexOf.set(`${file}:${line}`, this.rows.length);
      this.rows.push({ kind: "line", file, line, text: content, origins: cited.get(line) || [] });
    };
    if (text === null) {
      for (const line of lines) {
        const ops = [...new Set(cited.get(line).map((o) => this.model.origins.ops[this.model.origins.op[o]]))];
        add(line, `# ${ops.slice(0, 4).join(", ")}${ops.length > 4 ? ", …" : ""}`);
      }
      return;
    }
    const content = text.split("\n");
    let next = 1;
    const upTo = (last) => {
      for (; next <= Math.min(last, content.length); next++) add(next, content[next - 1]);
    };
    if (content.length <= WHOLE) upTo(content.length);
    else {
      for (const line of lines) {
        const from = Math.max(line - AROUND, 1);
        if (from > next) {
          this.rows.push({ kind: "gap", text: `⋯ ${from - next} lines` });
          next = from;
        }
        upTo(line + AROUND);
      }
    }
    for (const line of lines) if (!this.indexOf.has(`${file}:${line}`)) add(line, "");
  }

  #origins(index) {
    return index >= 0 && this.rows[index].kind === "line" ? this.rows[index].origins : [];
  }

  #fill(element, index) {
    const row = this.rows[index];
    const timed = this.most > 0;
    const found = cells(element, timed);
    element.className = `row ${row.kind}${row.origins && row.origins.length ? " cited" : ""}`;
    found[0].textContent = row.kind === "line" ? String(row.line) : "";
    if (timed) showTime(found[1], row.kind === "line" ? this.times.get(`${row.file}:${row.line}`) || 0 : 0, this.most);
    const text = found[timed ? 2 : 1];
    if (row.kind === "line") highlightPython(text, row.text);
    else text.textContent = row.text;
  }

  /** Begin at the slowest line, or at the first that is cited. */
  start() {
    if (this.started) return;
    this.started = true;
    let best = -1;
    let most = -1;
    for (const [key, time] of this.times) {
      if (time > most && this.indexOf.has(key)) {
        most = time;
        best = this.indexOf.get(key);
      }
    }
    if (best >= 0) this.list.show(best);
    this.list.update();
  }

  light(origins, still) {
    const lines = new Set();
    for (const origin of origins) {
      const index = this.indexOf.get(`${this.model.origins.file[origin]}:${this.model.origins.line[origin]}`);
      if (index !== undefined) lines.add(index);
    }
    this.list.light([...lines].sort((a, b) => a - b), still);
  }
}

const OPEN = 14;

/** Modules as a tree with their times, or how many operations they have. */
export class ModuleTree {
  constructor(model, on) {
    this.model = model;
    this.root = { name: "", depth: -1, children: new Map(), origins: [], ms: 0, open: true, parent: null };
    this.nodeOf = new Array(model.count);
    for (let origin = 0; origin < model.count; origin++) {
      const op = model.origins.ops[model.origins.op[origin]];
      if (DECLARES.test(op) || /^func\.|^input$/.test(op)) continue;
      let node = this.root;
      const path = model.path(origin);
      node.ms += model.originMs[origin];
      for (const part of path ? path.split(".") : []) {
        if (!node.children.has(part)) {
          node.children.set(part, { name: part, depth: node.depth + 1, children: new Map(), origins: [], ms: 0, open: false, parent: node });
        }
        node = node.children.get(part);
        node.ms += model.originMs[origin];
      }
      node.origins.push(origin);
      this.nodeOf[origin] = node;
    }
    let widest = [...this.root.children.values()];
    while (widest.length === 1 && widest[0].children.size) {
      widest[0].open = true;
      widest = [...widest[0].children.values()];
    }
    for (let open = widest.length; widest.length && open < OPEN; ) {
      const hot = widest.filter((n) => n.children.size).sort((a, b) => b.ms - a.ms || b.children.size - a.children.size)[0];
      if (!hot || open + hot.children.size > 3 * OPEN) break;
      hot.open = true;
      open += hot.children.size;
      widest = [...widest.filter((n) => n !== hot), ...hot.children.values()];
    }
    this.list = new List("modules", 0, (element, index) => this.#fill(element, index));
    this.element = this.list.element;
    this.#rebuild();
    this.list.scroller.addEventListener("pointerover", (event) => {
      const index = this.list.at(event);
      on.hover(index < 0 ? [] : this.all(this.visible[index]), this, null);
    });
    this.list.scroller.addEventListener("pointerleave", () => on.hover([], this, null));
    this.list.scroller.addEventListener("click", (event) => {
      const index = this.list.at(event);
      if (index < 0) return;
      const node = this.visible[index];
      if (node.children.size && event.target.closest(".twist, .label")) {
        node.open = !node.open;
        this.#rebuild();
      }
      if (!event.target.closest(".twist")) on.pin(this.all(node), this, null);
    });
  }

  get empty() {
    return this.root.children.size === 0;
  }

  /** Pixels that it takes when all of it is open. */
  get height() {
    const rows = (node) => [...node.children.values()].reduce((sum, child) => sum + 1 + rows(child), 0);
    return heightOf(rows(this.root)) + 2;
  }

  all(node) {
    const found = [...node.origins];
    for (const child of node.children.values()) for (const origin of this.all(child)) found.push(origin);
    return found;
  }

  #rebuild() {
    this.visible = [];
    const add = (node) => {
      for (const child of node.children.values()) {
        this.visible.push(child);
        if (child.open) add(child);
      }
    };
    add(this.root);
    this.list.resize(this.visible.length);
  }

  #fill(element, index) {
    const node = this.visible[index];
    if (!element.firstChild) element.append(make("span", "time"), make("span", "twist"), make("span", "label"));
    const [time, twist, label] = element.children;
    const all = this.root.ms ? this.root.ms : 0;
    if (all) showTime(time, node.ms, all);
    else time.textContent = String(this.all(node).length);
    twist.style.marginLeft = `${node.depth * 12}px`;
    twist.textContent = node.children.size ? (node.open ? "▾" : "▸") : "";
    label.textContent = node.name;
  }

  light(origins, still) {
    const nodes = new Set();
    for (const origin of origins) {
      let node = this.nodeOf[origin];
      while (node && node.parent && !this.#shown(node)) node = node.parent;
      if (node && node.parent) nodes.add(node);
    }
    const lines = [];
    if (nodes.size) this.visible.forEach((node, index) => nodes.has(node) && lines.push(index));
    this.list.light(lines, still || nodes.size > 40);
  }

  #shown(node) {
    for (let above = node.parent; above; above = above.parent) if (!above.open) return false;
    return true;
  }
}
