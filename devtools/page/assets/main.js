// Puts the parts together: what is lit, what is pinned, the keyboard, the address.
import { byId, bytes, make, time, writeTimesOf } from "./dom.js";
import { detailsOf, HELP, passDetails } from "./details.js";
import { betweenPanes, dragged, within } from "./drag.js";
import { GraphView } from "./graph.js";
import { LevelPane, ModuleTree, SourcePane } from "./levels.js";
import { Model, readData } from "./model.js";
import { overview, passList } from "./overview.js";
import { Search } from "./search.js";
import { Flame, MemoryMap } from "./timeline.js";

const FEW = 8;

class Page {
  constructor(model) {
    this.model = model;
    this.method = model.data.method;
    this.pinned = null;
    this.shownDetails = null;
    this.pass = -1;
    this.panes = new Map();
    this.strips = [];
    this.on = {
      hover: (origins, pane, at, keep) => this.hover(origins, pane, at, keep),
      pin: (origins, pane, at, keep) => this.pin(origins, pane, at, keep),
      focus: (pane) => (this.active = pane),
      tip: (text, x, y, canvas) => this.tip(text, x, y, canvas),
      goTo: (level, row) => this.goTo(level, row),
    };
    writeTimesOf(model.totalMs);
    this.#head();
    this.source = new SourcePane(model, this.on);
    this.tree = new ModuleTree(model, this.on);
    this.#left();
    this.showLevels(this.#usualLevels());
    this.showMethod();
    this.#legend();
    this.showDetails([], null);
    this.search = new Search(model, () => this.shownLevels, this.on);
    this.#keyboard();
    this.#splitters();
    this.#readAddress();
  }

  /** As many levels as there is room for: what the program was, what runs, and the inside of delegates. */
  #usualLevels() {
    const { levels, et } = this.model;
    const delegate = levels.findIndex((level) => level.kind === "delegate");
    const edge = levels.findIndex((level) => level.name === "edge");
    const before = edge >= 0 ? edge : 0;
    const calls = this.model.methods.reduce((sum, method) => sum + this.model.instructions[method].row.length, 0);
    // Where nearly all is inside of delegates, what was given to them says more than their calls.
    const wanted = delegate < 0 ? [et, before] : calls < FEW ? [delegate, before, et] : [et, delegate, before];
    const room = window.innerWidth >= 1900 ? 3 : 2;
    return [...new Set(wanted.filter((index) => index >= 0))].slice(0, room);
  }

  #head() {
    const { data } = this.model;
    byId("title").textContent = data.title;
    const facts = [data.target];
    for (const level of this.model.levels) if (level.kind === "delegate") facts.push(level.name);
    if (this.model.totalMs) facts.push(`${time(this.model.totalMs)} a run`);
    const planned = Object.values(data.memory).map((plan) => plan.pools.slice(1).reduce((a, b) => a + b, 0));
    if (planned.length) facts.push(`${bytes(Math.max(...planned))} memory`);
    byId("facts").textContent = facts.filter(Boolean).join(" · ");
    const method = byId("method");
    method.hidden = this.model.methods.length < 2;
    for (const name of this.model.methods) method.append(new Option(name, name, false, name === this.method));
    method.addEventListener("change", () => {
      this.method = method.value;
      this.showMethod();
    });
    this.boxes = this.model.levels.map((level, index) => {
      const box = make("input");
      box.type = "checkbox";
      box.addEventListener("change", () => {
        const chosen = this.boxes.flatMap((other, i) => (other.checked ? [i] : []));
        if (chosen.length) this.showLevels(chosen);
        else box.checked = true;
      });
      byId("levels").append(make("label", "", box, level.name));
      return box;
    });
    const color = byId("color");
    for (const [value, text] of this.#colorings()) color.append(new Option(text, value));
    color.addEventListener("change", () => this.#legend());
    byId("theme").addEventListener("click", () => this.theme());
    byId("help").addEventListener("click", () => this.help());
  }

  #colorings() {
    const found = [];
    if (this.model.levels.some((level) => level.partition || level.kind === "delegate")) found.push(["delegate", "color: delegate"]);
    if (this.model.originError.size) found.unshift(["difference", "color: difference"]);
    if (this.model.parts.length) found.push(["time", "color: time"]);
    found.push(["dtype", "color: dtype"], ["origin", "color: module"], ["none", "no color"]);
    return found;
  }

  #left() {
    byId("modules").append(this.tree.element);
    // A short list of modules leaves its room to what stands above it; from here on nothing moves.
    byId("left").style.setProperty("--modules", `${this.tree.height}px`);
    byId("passes").append(...passList(this.model, (index) => this.showPass(index)));
    const choose = (passes) => {
      byId("modules").hidden = passes;
      byId("passes").hidden = !passes;
      byId("tab-passes").classList.toggle("on", passes);
      byId("tab-modules").classList.toggle("on", !passes);
    };
    byId("tab-modules").addEventListener("click", () => choose(false));
    byId("tab-passes").addEventListener("click", () => choose(true));
    byId("tab-passes").hidden = !this.model.data.passes.length;
    byId("tab-passes").textContent = `passes ${this.model.data.passes.length}`;
    if (this.tree.empty && this.model.data.passes.length) choose(true);
    else if (this.tree.empty) byId("tabs").hidden = true;
  }

  showLevels(chosen) {
    const panes = byId("panes");
    this.chosen = [...chosen].sort((a, b) => a - b);
    this.shownLevels = this.chosen.map((index) => this.model.levels[index]);
    this.boxes.forEach((box, index) => (box.checked = chosen.includes(index)));
    const elements = [];
    if (!this.source.empty) elements.push(this.source.element);
    this.shown = this.chosen.map((index) => {
      if (!this.panes.has(index)) {
        const pane = new LevelPane(this.model.levels[index], this.on);
        pane.colorOf = this.colorOf || null;
        pane.graphButton.addEventListener("click", () => this.graph(pane));
        pane.graphButton.hidden = !GraphView.fits(pane.level);
        this.panes.set(index, pane);
      }
      return this.panes.get(index);
    });
    elements.push(...this.shown.map((pane) => pane.element));
    // What stands for the text of files that are not there needs little room.
    const weights = elements.map((element) => (element === this.source.element && !this.source.hasText ? 0.55 : 1));
    panes.replaceChildren(...elements, ...betweenPanes(panes, elements, weights));
    this.source.start();
    for (const pane of this.shown) pane.start();
    this.active = this.shown.at(-1);
    if (this.pinned) this.light(this.pinned.origins, null);
    this.#writeAddress();
  }

  showMethod() {
    byId("overview").replaceChildren(...overview(this.model, this.method, this.on));
    const strips = byId("strips");
    this.strips = [];
    const boxes = [];
    if (this.model.data.profiles[this.method]) {
      const flame = new Flame(this.model, this.method, this.on);
      flame.canvas.style.height = `${flame.height}px`;
      boxes.push(make("h2", "", "time", make("span", "muted", "run ▸ module ▸ line ▸ operator")), flame.canvas);
      this.strips.push(flame);
    }
    const plan = this.model.data.memory[this.method];
    const pools = plan ? plan.pools.flatMap((size, pool) => (pool && size ? [pool] : [])) : [];
    for (const pool of pools.slice(0, 3)) {
      const map = new MemoryMap(this.model, this.method, pool, this.on);
      map.canvas.className = "memory";
      const bound = plan.bounds[String(pool)];
      const note = bound ? `${bytes(plan.pools[pool])}; no plan needs less than ${bytes(bound.bound)}; peak at instruction ${bound.peak}` : bytes(plan.pools[pool]);
      boxes.push(make("h2", "", pools.length > 1 ? `memory ${pool}` : "memory", make("span", "muted", note)), map.canvas);
      this.strips.push(map);
    }
    strips.replaceChildren(...boxes);
    byId("main").classList.toggle("nostrips", !boxes.length);
    if (this.pinned) this.light(this.pinned.origins, null);
  }

  // --- light and pin ---------------------------------------------------------------------------------------------

  hover(origins, pane, at, keep = false) {
    if (this.pinned) return;
    this.light(origins, pane);
    if (!keep) this.showDetails(origins, at);
  }

  pin(origins, pane, at, keep = false) {
    this.pinned = origins.length ? { origins: [...origins] } : null;
    document.body.classList.toggle("pinned", this.pinned !== null);
    this.light(origins, pane);
    if (!keep) this.showDetails(origins, at);
    this.#writeAddress();
  }

  light(origins, pane) {
    for (const shown of this.shown) {
      shown.light(origins, shown === pane);
      if (shown.view) shown.view.light(origins, shown === pane);
    }
    this.source.light(origins, this.source === pane);
    this.tree.light(origins, this.tree === pane);
    for (const strip of this.strips) strip.light(origins);
  }

  /** The rows of a level that origins light, for whoever tests the page. */
  rowsOf(level, origins) {
    return this.model.levels[level].rowsOf(origins);
  }

  goTo(level, row) {
    const index = this.model.levels.indexOf(level);
    if (!this.chosen.includes(index)) this.showLevels([...this.chosen, index]);
    const pane = this.panes.get(index);
    pane.list.show(level.line[row]);
    pane.list.select(level.line[row]);
    this.pin(pane.originsOf(row), null, { level, row });
    pane.list.show(level.line[row]);
  }

  showDetails(origins, at) {
    const what = byId("what");
    if (!origins.length && !at) {
      if (this.shownDetails !== "hint") what.replaceChildren(make("p", "muted", "Hover an operation, a source line, a module or a buffer: what belongs to it lights up everywhere. Click keeps it, Esc lets it go, ? shows the keys."));
      this.shownDetails = "hint";
      return;
    }
    this.shownDetails = null;
    what.replaceChildren(...detailsOf(this.model, this.method, origins, at));
    what.scrollTop = 0;
  }

  showPass(index) {
    const { passes } = this.model.data;
    if (!passes.length) return;
    this.pass = Math.max(0, Math.min(passes.length - 1, index));
    byId("tab-passes").click();
    [...byId("passes").children].forEach((button, i) => button.classList.toggle("now", i === this.pass));
    byId("passes").children[this.pass].scrollIntoView({ block: "nearest" });
    const entry = passes[this.pass];
    this.shownDetails = null;
    byId("what").replaceChildren(...passDetails(this.model, this.pass, this.on));
    const origins = entry.rows.filter(([kind]) => kind !== "missed").flatMap((row) => row[3]);
    if (!this.pinned) this.light([...new Set(origins)], null);
  }

  tip(text, x, y, canvas) {
    const tip = byId("tip");
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const box = canvas.getBoundingClientRect();
    const left = Math.min(box.left + x + 14, window.innerWidth - tip.offsetWidth - 8);
    tip.style.transform = `translate(${left}px, ${box.top + y - tip.offsetHeight - 8}px)`;
  }

  help() {
    this.shownDetails = null;
    const rows = HELP.map(([key, text]) => make("div", "field", make("dt", "", key), make("dd", "", text)));
    byId("what").replaceChildren(make("h3", "", "keyboard and pointer"), ...rows);
  }

  // --- color -----------------------------------------------------------------------------------------------------

  #legend() {
    const kind = byId("color").value;
    const known = new Map();
    const colors = [0, 1, 2, 3, 4, 5, 6, 7].map((i) => `var(--s${i})`);
    const of = (key) => {
      if (!key) return null;
      if (!known.has(key)) known.set(key, colors[known.size % colors.length]);
      return known.get(key);
    };
    const group = (level, row) => {
      const origin = level.origins.row(row)[0];
      return origin === undefined ? "" : this.model.path(origin).split(".").slice(0, 2).join(".");
    };
    const dtype = (level, row) => (/(?:-> |: )\(?tensor<(?:[^>]*x)?([a-z]+\d*)[^x]*$/.exec(level.lines[level.line[row]]) || [])[1] || "";
    const key = {
      delegate: (level, row) => (level.kind === "delegate" ? level.name : level.partition ? level.partitions[level.partition[row]].replace(/[^a-zA-Z_].*$/, "") : level.opName(row).includes("delegate") ? "delegate" : ""),
      dtype,
      origin: group,
    }[kind];
    if (kind === "time") {
      const most = this.model.levels.map((level) => (level.ms ? level.ms.reduce((a, b) => Math.max(a, b), 0) : 0));
      this.colorOf = (level, row) => {
        const share = level.ms ? level.ms[row] / (most[this.model.levels.indexOf(level)] || 1) : 0;
        return share > 0.5 ? "var(--bad)" : share > 0.15 ? "var(--heat)" : share > 0.03 ? "var(--peak)" : null;
      };
    } else if (kind === "difference") {
      this.colorOf = (level, row) => (level.wrong && level.wrong[row] ? (level.wrong[row] === 2 ? "var(--bad)" : "var(--ok)") : null);
    } else this.colorOf = key ? (level, row) => of(key(level, row)) : null;
    for (const pane of this.panes.values()) {
      pane.colorOf = this.colorOf;
      pane.list.refill();
    }
    const legend = byId("legend");
    if (kind === "time") known.set("over 50 % of the slowest", "var(--bad)").set("15 %", "var(--heat)").set("3 %", "var(--peak)");
    if (kind === "difference") known.set("differs", "var(--bad)").set("agrees", "var(--ok)");
    if (key) for (const level of this.shownLevels) for (let row = 0; row < Math.min(level.line.length, 3000); row++) of(key(level, row));
    legend.replaceChildren(
      ...[...known].slice(0, 8).map(([text, color]) => {
        const mark = make("i");
        mark.style.background = color;
        return make("span", "", mark, text);
      }),
    );
  }

  theme() {
    const { dataset } = document.documentElement;
    dataset.theme = dataset.theme === "dark" ? "light" : "dark";
    this.#recolor();
  }

  #recolor() {
    for (const strip of this.strips) strip.redraw();
    for (const pane of this.shown) {
      pane.list.drawMarks();
      if (pane.view) pane.view.redraw();
    }
    this.source.list.drawMarks();
  }

  // --- keyboard, splitter, address -------------------------------------------------------------------------------

  graph(pane) {
    if (!pane.view) {
      pane.view = new GraphView(this.model, pane.level, this.on, pane);
      pane.body.append(pane.view.element);
    }
    const graph = pane.element.classList.toggle("graph");
    pane.graphButton.textContent = graph ? "text" : "graph";
    if (graph) pane.view.start();
    else pane.list.update();
    if (this.pinned) this.light(this.pinned.origins, null);
  }

  /** Of the pane that is being worked in, or of the first that can be drawn. */
  #toggleGraph() {
    const pane = [this.active, ...this.shown].find((one) => !one.graphButton.hidden);
    if (pane) this.graph(pane);
  }

  #keyboard() {
    preferred.addEventListener("change", () => {
      usePreferred();
      this.#recolor();
    });
    document.addEventListener("keydown", (event) => {
      if (event.target.closest("input:not([type=checkbox]), select") || event.ctrlKey || event.metaKey || event.altKey) return;
      const at = this.shown.indexOf(this.active);
      const keys = {
        "/": () => this.search.input.select(),
        Escape: () => this.pin([], null, null),
        j: () => this.active.step(1),
        k: () => this.active.step(-1),
        "]": () => this.#activate(at + 1),
        "[": () => this.#activate(at - 1),
        n: () => this.showPass(this.pass + 1),
        p: () => this.showPass(this.pass - 1),
        t: () => this.theme(),
        g: () => this.#toggleGraph(),
        "?": () => this.help(),
      };
      if (!(event.key in keys)) return;
      event.preventDefault();
      keys[event.key]();
    });
  }

  #activate(index) {
    const pane = this.shown[(index + this.shown.length) % this.shown.length];
    pane.list.scroller.focus();
    this.active = pane;
  }

  #splitters() {
    const { style } = byId("main");
    const sides = byId("main").getBoundingClientRect();
    dragged(byId("split"), (x, y) => style.setProperty("--bottom", `${within(window.innerHeight - y - 14, 60, window.innerHeight - 200)}px`));
    dragged(byId("split-left"), (x) => style.setProperty("--left", `${within(x - sides.left - 8, 120, window.innerWidth - 400)}px`));
    dragged(byId("split-right"), (x) => style.setProperty("--right", `${within(window.innerWidth - x - 8, 120, window.innerWidth - 400)}px`));
  }

  /** What is wrong first is in sight in every pane. */
  #showFinding() {
    const found = this.model.data.findings.find(([severity, , origins]) => severity === "error" && origins.length);
    if (!found) return;
    const origins = found[2];
    for (const pane of [this.source, ...this.shown]) {
      pane.light(origins, false);
      pane.light([], true);
    }
  }

  #writeAddress() {
    if (!this.ready) return;
    const parts = [`levels=${this.chosen.map((index) => encodeURIComponent(this.model.levels[index].name)).join(",")}`];
    if (this.pinned) parts.push(`pin=${this.pinned.origins.slice(0, 200).map((origin) => this.model.numbers[origin]).join(",")}`);
    history.replaceState(null, "", `#${parts.join("&")}`);
  }

  #readAddress() {
    const given = new URLSearchParams(location.hash.slice(1));
    const names = (given.get("levels") || "").split(",");
    const levels = this.model.levels.flatMap((level, index) => (names.includes(level.name) ? [index] : []));
    if (levels.length) this.showLevels(levels);
    const index = new Map(Array.from(this.model.numbers, (number, at) => [String(number), at]));
    const pins = (given.get("pin") || "").split(",").flatMap((number) => index.get(number) ?? []);
    if (pins.length) this.pin(pins, null, null);
    else this.#showFinding();
    this.ready = true;
  }
}

const preferred = matchMedia("(prefers-color-scheme: dark)");
const usePreferred = () => (document.documentElement.dataset.theme = preferred.matches ? "dark" : "light");
usePreferred();
readData()
  .then((data) => {
    const page = new Page(new Model(data));
    globalThis.etir = page;
    requestAnimationFrame(() => setTimeout(() => (document.body.dataset.ready = String(Math.round(performance.now())))));
  })
  .catch((error) => {
    byId("title").textContent = `The data of this page cannot be read: ${error}`;
    throw error;
  });
