// The page of a sweep. All text reaches it as text; the state is what is chosen, and everything is drawn from it.

const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
const COLORS = ["--s0", "--s1", "--s2", "--s3", "--s4", "--s5", "--s6", "--s7"];
/** Kinds have a color and a shape: circles first, then squares, then diamonds. */
const SHAPES = ["", "square", "diamond"];
/** Rows of a table that are made at a time: a page of ten thousand is as quick as one of a hundred. */
const AT_ONCE = 200;
/** Fronts that are drawn together; of more, that of the program whose point is looked at. */
const FRONTS = 12;
/** Pixels of a decade from which its 2 and its 5 are marked, and those between marks of a scale that is not logarithmic. */
const [APART, TICK] = [260, 70];
/** Letters from which text in a table is broken into lines, and of a message that are shown unasked. */
const [LONG, SAID] = [36, 200];
const PREFERRED = { x: ["latency", "bytes"], y: ["accuracy", "difference"], size: ["bytes", "arena"] };

function make(tag, className = "", ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

async function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

function shown(name, value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  if (name === "latency") return `${(value * 1e3).toPrecision(3)} ms`;
  if (name.endsWith("seconds")) return `${value.toPrecision(3)} s`;
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) < 1e-3 ? value.toExponential(1) : value.toPrecision(4);
}

function bounds(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return [low, high];
}

/** Numbers, then text (what is not finite is that), then nothing. */
function compare(one, other) {
  const rank = (value) => (value === null || value === undefined ? 2 : typeof value === "number" ? 0 : 1);
  if (rank(one) !== rank(other)) return rank(one) - rank(other);
  return one < other ? -1 : one > other ? 1 : 0;
}

/** A message: its first line, and the rest when that is asked for. */
function said(message) {
  const [first] = message.split("\n");
  const start = first.slice(0, SAID);
  if (start === message) return make("span", "", message);
  return make("details", "", make("summary", "", `${start} …`), message.slice(start.length).replace(/^\n/, ""));
}

const percent = (ratio) => `${ratio < 0 ? "" : "+"}${(ratio * 100).toFixed(1)} %`;

class Page {
  constructor(data) {
    this.data = data;
    this.rows = data.rows;
    this.off = data.axes.map(() => new Set());
    this.offStatus = new Set();
    this.order = null;
    this.now = null;
    this.front = new Set();
    this.words = [];
    for (const row of this.rows) row.text = [...row.at, row.status, row.error].join(" ").toLowerCase();
    this.differing = data.axes.filter((_, i) => new Set(this.rows.map((row) => row.at[i])).size > 1);
  }

  start() {
    const { data } = this;
    document.title = data.title;
    byId("title").textContent = data.title;
    const taken = new Set();
    for (const [axis, preferred] of Object.entries(PREFERRED)) {
      const names = axis === "size" ? ["", ...data.numbers] : data.numbers;
      const free = (name) => !taken.has(name);
      const wanted = preferred.filter((name) => data.numbers.includes(name)).find(free) ?? names.find(free) ?? names[0] ?? "";
      this.choose(axis, names, wanted);
      taken.add(wanted);
    }
    const { differing } = this;
    this.choose("color", data.axes, ["recipe", "delegates", "program"].find((a) => differing.includes(a)) ?? data.axes[0]);
    this.filters();
    const flip = () => {
      const { dataset } = document.documentElement;
      dataset.theme = dataset.theme === "dark" ? "light" : "dark";
    };
    byId("theme").addEventListener("click", flip);
    byId("find").addEventListener("input", () => {
      this.words = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
      this.update();
    });
    const over = (event) => this.marked.get(event.target);
    byId("plot").addEventListener("mouseover", (event) => over(event) && this.show(over(event)));
    byId("plot").addEventListener("mouseout", (event) => over(event) && this.show(null));
    byId("plot").addEventListener("click", (event) => over(event) && this.scrollTo(over(event)));
    byId("plot").addEventListener("keydown", (event) => this.key(event));
    byId("plot").addEventListener("blur", () => this.show(null));
    document.addEventListener("keydown", (event) => {
      const typing = ["SELECT", "INPUT"].includes(event.target.tagName);
      if (event.key === "t" && !typing && !event.ctrlKey && !event.metaKey) flip();
      if (event.key === "Escape") this.show(null);
    });
    addEventListener("resize", () => this.plot());
    byId("more").addEventListener("click", () => this.more());
    byId("more-changes").addEventListener("click", () => this.moreChanges());
    this.update();
  }

  choose(id, names, wanted) {
    const select = byId(id);
    for (const name of names) {
      const option = make("option", "", name || "equal");
      option.value = name;
      select.append(option);
    }
    select.value = wanted;
    select.addEventListener("change", () => this.update());
  }

  // --- what is chosen ------------------------------------------------------------------------------------------------

  filters() {
    const place = byId("filters");
    const add = (title, values, off) => {
      if (values.length < 2) return;
      const boxes = values.map((value) => {
        const box = make("input");
        box.type = "checkbox";
        box.checked = true;
        box.addEventListener("change", () => {
          if (box.checked) off.delete(value);
          else off.add(value);
          this.update();
        });
        return box;
      });
      const all = make("button", "", "all");
      all.type = "button";
      all.title = `all or none of ${title}`;
      all.addEventListener("click", () => {
        const some = off.size > 0;
        off.clear();
        if (!some) values.forEach((value) => off.add(value));
        boxes.forEach((box) => (box.checked = some));
        this.update();
      });
      const labels = values.map((value, i) => make("label", "choice", boxes[i], make("span", "grow", value)));
      const choices = make("div", "choices", ...labels);
      const card = make("fieldset", "card", make("h2", "", make("span", "", title), all), choices);
      place.append(card);
    };
    this.data.axes.forEach((axis, i) => add(axis, [...new Set(this.rows.map((row) => row.at[i]))], this.off[i]));
    add("status", [...new Set(this.rows.map((row) => row.status))], this.offStatus);
    const machines = [...new Set(this.rows.map((row) => row.machine))];
    this.offMachine = new Set();
    add("machine", machines, this.offMachine);
  }

  get chosen() {
    return this.rows.filter(
      (row) =>
        this.words.every((word) => row.text.includes(word)) &&
        row.at.every((value, i) => !this.off[i].has(value)) &&
        !this.offStatus.has(row.status) &&
        !this.offMachine.has(row.machine),
    );
  }

  value(row, name) {
    const found = row.figures[this.data.figures.indexOf(name)];
    return typeof found === "number" && Number.isFinite(found) ? found : null;
  }

  // --- the front -----------------------------------------------------------------------------------------------------

  /** Rows that no other one beats in x, y and size: within a program, and within a machine where a time is compared. */
  best(rows, names) {
    const groups = new Map();
    const timed = names.some((name) => this.data.times.includes(name));
    const compiled = names.includes("compile_seconds") ? this.data.figures.indexOf("compiled_on") : -1;
    for (const row of rows) {
      if (row.status !== "ok") continue;
      const point = names.map((name) => this.value(row, name) * (this.data.larger.includes(name) ? -1 : 1));
      const key = JSON.stringify([row.at[0], timed ? row.machine : "", row.figures[compiled] ?? ""]);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push([row, point]);
    }
    const found = new Set();
    for (const group of groups.values()) {
      group.sort(([, a], [, b]) => {
        const i = a.findIndex((value, k) => value !== b[k]);
        return i < 0 ? 0 : a[i] - b[i];
      });
      const front = [];
      for (const [row, point] of group) {
        const beaten = front.some((other) => other.every((v, k) => v <= point[k]) && other.some((v, k) => v < point[k]));
        if (!beaten) {
          front.push(point);
          found.add(row);
        }
      }
    }
    return found;
  }

  update() {
    const [x, y, size] = ["x", "y", "size"].map((id) => byId(id).value);
    const names = [...new Set([x, y, size].filter(Boolean))];
    const chosen = this.chosen;
    this.points = x && y ? chosen.filter((row) => names.every((name) => this.value(row, name) !== null)) : [];
    this.front = this.best(this.points, names);
    const bad = chosen.filter((row) => row.status !== "ok").length;
    const machines = new Set(chosen.map((row) => row.machine)).size;
    const facts = [`${chosen.length} of ${this.rows.length} cells`, `${this.front.size} on the front`];
    if (bad) facts.push(`${bad} not ok`);
    if (this.points.length < chosen.length) facts.push(`${chosen.length - this.points.length} without these figures`);
    if (machines > 1 && names.some((name) => this.data.times.includes(name)))
      facts.push(`${machines} machines: times are compared within each`);
    byId("facts").textContent = facts.join(" · ");
    this.show(null);
    this.plot();
    this.table(chosen);
    this.changes();
  }

  // --- the picture ---------------------------------------------------------------------------------------------------

  scale(name, from, to) {
    let [low, high] = bounds(this.points.map((row) => this.value(row, name)));
    const isLog = low > 0 && high / low > 20;
    const map = isLog ? Math.log10 : (value) => value;
    [low, high] = [map(low), map(high)];
    if (high - low < 1e-12 * Math.max(1, Math.abs(high))) [low, high] = [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
    const margin = (high - low) * 0.06;
    [low, high] = [low - margin, high + margin];
    const ticks = [];
    if (isLog) {
      const width = high - low;
      const room = Math.abs(to - from) / width;
      for (let power = Math.floor(low); power <= high; power++)
        for (const digit of width < 2 && room > APART ? [1, 2, 5] : [1])
          if (power + Math.log10(digit) >= low && power + Math.log10(digit) <= high) ticks.push(digit * 10 ** power);
    } else {
      const rough = (high - low) / Math.min(6, Math.max(2, Math.abs(to - from) / TICK));
      const unit = 10 ** Math.floor(Math.log10(rough));
      const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough);
      for (let at = Math.ceil(low / step); at * step <= high; at++) ticks.push(Number((at * step).toPrecision(12)));
    }
    return { place: (value) => from + ((map(value) - low) / (high - low)) * (to - from), ticks, isLog };
  }

  plot() {
    const svg = byId("plot");
    svg.replaceChildren();
    this.marked = new WeakMap();
    this.marks = new Map();
    this.lineOf = () => null;
    const { width, height } = svg.getBoundingClientRect();
    const [xName, yName, sizeName, colorName] = ["x", "y", "size", "color"].map((id) => byId(id).value);
    if (!this.points.length) {
      svg.append(draw("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, this.rows.length ? "no cell has these figures" : "there are no rows"));
      byId("legend").replaceChildren();
      return;
    }
    const x = this.scale(xName, 74, width - 16);
    const y = this.scale(yName, height - 44, 14);
    for (const tick of x.ticks) {
      const at = x.place(tick);
      svg.append(draw("line", { class: "grid", x1: at, x2: at, y1: 14, y2: height - 44 }));
      svg.append(draw("text", { x: at, y: height - 28, "text-anchor": "middle" }, shown(xName, tick)));
    }
    for (const tick of y.ticks) {
      const at = y.place(tick);
      svg.append(draw("line", { class: "grid", x1: 74, x2: width - 16, y1: at, y2: at }));
      svg.append(draw("text", { x: 68, y: at + 4, "text-anchor": "end" }, shown(yName, tick)));
    }
    const said = (name, scale) => `${name}${this.data.larger.includes(name) ? ", more is better" : ""}${scale.isLog ? ", logarithmic" : ""}`;
    svg.append(draw("text", { class: "label", x: (74 + width) / 2, y: height - 8, "text-anchor": "middle" }, said(xName, x)));
    svg.append(draw("text", { class: "label", x: -(height - 30) / 2, y: 13, "text-anchor": "middle", transform: "rotate(-90)" }, said(yName, y)));
    const axis = this.data.axes.indexOf(colorName);
    const kinds = [...new Set(this.rows.map((row) => row.at[axis]))];
    const numberOf = new Map(kinds.map((kind, i) => [kind, i]));
    const color = (i) => `var(${COLORS[i % COLORS.length]})`;
    const shape = (i) => SHAPES[Math.floor(i / COLORS.length) % SHAPES.length];
    const sizes = sizeName ? this.points.map((row) => this.value(row, sizeName)) : [];
    const [least, most] = bounds(sizes);
    const radius = (row) => (sizes.length && most > least ? 5 + 9 * Math.sqrt((this.value(row, sizeName) - least) / (most - least)) : 6);
    const lines = new Map();
    for (const row of this.best(this.points, [xName, yName])) {
      const key = JSON.stringify([row.at[0], row.machine]);
      if (!lines.has(key)) lines.set(key, []);
      lines.get(key).push([x.place(this.value(row, xName)), y.place(this.value(row, yName))]);
    }
    const line = (points) => {
      points.sort(([a], [b]) => a - b);
      return draw("polyline", { class: "front", points: points.map((p) => p.join(",")).join(" ") });
    };
    if (lines.size <= FRONTS) svg.append(...[...lines.values()].filter((points) => points.length > 1).map(line));
    else this.lineOf = (row) => line(lines.get(JSON.stringify([row.at[0], row.machine])) ?? []);
    // Large points first, so that small ones are on top of them.
    for (const row of [...this.points].sort((a, b) => radius(b) - radius(a))) {
      const best = this.front.has(row) ? " best" : "";
      const kind = numberOf.get(row.at[axis]);
      const [cx, cy, r] = [x.place(this.value(row, xName)), y.place(this.value(row, yName)), radius(row)];
      const corners = shape(kind) === "square" ? [-0.85, -0.85, 0.85, -0.85, 0.85, 0.85, -0.85, 0.85] : [0, -1.2, 1.2, 0, 0, 1.2, -1.2, 0];
      const place = shape(kind) ? { points: corners.map((c, i) => c * r + (i % 2 ? cy : cx)).join(" ") } : { cx, cy, r };
      const mark = draw(shape(kind) ? "polygon" : "circle", {
        class: `point${best}${row.status === "ok" ? "" : " wrong"}`,
        ...place,
        role: "option",
        "aria-label": row.at.join(", "),
      });
      mark.style.fill = color(kind);
      this.marks.set(row, mark);
      this.marked.set(mark, row);
      svg.append(mark);
    }
    const entries = kinds.map((kind, i) => {
      const swatch = make("span", `swatch ${shape(i)}`);
      swatch.style.background = color(i);
      return make("span", "", swatch, kind);
    });
    byId("legend").replaceChildren(...entries, make("span", "muted", "full color: nothing beats it, for its program"));
  }

  /** Arrow keys go from point to point, from left to right; home and end to the first and the last. */
  key(event) {
    const name = byId("x").value;
    const order = [...this.points].sort((a, b) => this.value(a, name) - this.value(b, name));
    if (!order.length) return;
    const at = order.indexOf(this.now);
    const steps = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at < 0 ? -1 : at - 1, ArrowUp: at < 0 ? -1 : at - 1, Home: 0, End: -1 };
    if (event.key === "Enter" && this.now) this.scrollTo(this.now);
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.show(order.at(steps[event.key] % order.length));
  }

  /** The row's line in the table, which is made if it is not there yet. */
  scrollTo(row) {
    while (!this.lines.has(row) && this.more());
    this.lines.get(row)?.classList.add("now");
    this.lines.get(row)?.scrollIntoView({ block: "center" });
  }

  show(row) {
    this.lineNow?.remove();
    if (this.now) {
      this.marks?.get(this.now)?.classList.remove("now");
      this.lines?.get(this.now)?.classList.remove("now");
    }
    this.now = row;
    const tip = byId("tip");
    tip.hidden = row === null;
    if (row === null) return;
    const mark = this.marks?.get(row);
    mark?.classList.add("now");
    this.lineNow = this.lineOf(row);
    if (this.lineNow) byId("plot").prepend(this.lineNow);
    this.lines?.get(row)?.classList.add("now");
    const list = make("dl");
    const add = (name, value) => value && list.append(make("dt", "", name), make("dd", "", value));
    add("status", row.error ? `${row.status} ${row.error}` : row.status);
    this.data.figures.forEach((name, i) => add(name, shown(name, row.figures[i])));
    add("machine", row.machine);
    tip.replaceChildren(make("b", "", row.at.join(" / ")), list, make("div", "muted", row.message));
    if (!mark) return;
    const box = mark.getBoundingClientRect();
    const own = tip.getBoundingClientRect();
    const left = box.right + 8 + own.width > innerWidth ? box.left - 8 - own.width : box.right + 8;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, Math.min(box.top, innerHeight - own.height - 4))}px`;
  }

  // --- the tables ----------------------------------------------------------------------------------------------------

  table(rows) {
    const { axes, figures, numbers } = this.data;
    const shownAxes = this.differing.length ? this.differing : axes.slice(0, 1);
    const columns = [
      ...shownAxes.map((name) => ({ name, of: (row) => row.at[axes.indexOf(name)] })),
      { name: "status", of: (row) => (row.error ? `${row.status} ${row.error}` : row.status) },
      ...figures.map((name, i) => ({ name, of: (row) => row.figures[i], number: numbers.includes(name) })),
    ];
    if (this.order) {
      const { name, down } = this.order;
      const { of } = columns.find((column) => column.name === name);
      const sign = down ? -1 : 1;
      const there = (row) => of(row) !== null && of(row) !== undefined;
      rows = [...rows].sort((a, b) => (there(a) && there(b) ? sign : 1) * compare(of(a), of(b)));
    }
    const head = columns.map((column) => {
      const mark = this.order?.name === column.name ? (this.order.down ? " ▾" : " ▴") : "";
      const button = make("button", "", column.name + mark);
      button.type = "button";
      button.addEventListener("click", () => {
        this.order = { name: column.name, down: this.order?.name === column.name && !this.order.down };
        this.table(this.chosen);
      });
      return make("th", column.number ? "number" : "", button);
    });
    this.lines = new Map();
    const body = make("tbody");
    const add = (row) => {
      const cells = columns.map((column) => {
        const status = column.name === "status" ? (row.status === "ok" ? "status-ok" : "status-bad") : "";
        const text = shown(column.name, column.of(row));
        return make("td", column.number ? "number" : status || (text.length > LONG ? "long" : ""), text);
      });
      const line = make("tr", `${this.front.has(row) ? "best" : ""}${row.message ? " explained" : ""}`.trim(), ...cells);
      line.addEventListener("mouseenter", () => this.marks?.get(row)?.classList.add("now"));
      line.addEventListener("mouseleave", () => this.marks?.get(row)?.classList.remove("now"));
      this.lines.set(row, line);
      if (!row.message) return [line];
      const why = make("td", "", said(row.message));
      why.colSpan = columns.length;
      return [line, make("tr", "why", why)];
    };
    const button = byId("more");
    this.more = () => {
      const next = rows.slice(this.lines.size, this.lines.size + AT_ONCE);
      body.append(...next.flatMap(add));
      button.hidden = this.lines.size === rows.length;
      button.textContent = `${rows.length - this.lines.size} more rows`;
      return next.length > 0;
    };
    this.more();
    byId("table").replaceChildren(make("thead", "", make("tr", "", ...head)), body);
  }

  /** What is different from the other sweep, of cells that have the words. */
  changes() {
    const all = this.data.changes;
    if (all === null) return;
    byId("changes").hidden = false;
    const found = all.filter(({ name, what }) => this.words.every((word) => `${name} ${what}`.toLowerCase().includes(word)));
    const of = found.length < all.length ? `${found.length} of ${all.length}` : `${all.length}`;
    byId("differences").textContent = `${of} changes against the other sweep`;
    const body = make("tbody");
    const add = ({ name, what, before, after, better }) => {
      const word = better === null ? "other" : better ? "better" : "worse";
      const ratio = typeof before === "number" && typeof after === "number" && before ? percent(after / before - 1) : "";
      const cells = [word, name, what, shown(what, before), shown(what, after), ratio];
      const kind = (text, i) => (i === 0 ? word : i > 2 && text.length <= LONG ? "number" : text.length > 2 * LONG ? "long" : "");
      return make("tr", "", ...cells.map((text, i) => make("td", kind(text, i), text)));
    };
    this.moreChanges = () => {
      const there = body.rows.length;
      body.append(...found.slice(there, there + AT_ONCE).map(add));
      byId("more-changes").hidden = body.rows.length === found.length;
      byId("more-changes").textContent = `${found.length - body.rows.length} more changes`;
    };
    this.moreChanges();
    const names = ["", "cell", "what", "before", "after", "change"];
    const head = make("tr", "", ...names.map((name, i) => make("th", i > 2 ? "number" : "", name)));
    byId("different").replaceChildren(...(found.length ? [make("thead", "", head), body] : []));
  }
}

const started = performance.now();
const preferred = matchMedia("(prefers-color-scheme: dark)");
const usePreferred = () => (document.documentElement.dataset.theme = preferred.matches ? "dark" : "light");
preferred.addEventListener("change", usePreferred);
usePreferred();
inflated(byId("data").textContent).then((data) => {
  const page = new Page(data);
  page.start();
  globalThis.etir = page;
  document.body.dataset.ready = String(Math.max(1, performance.now() - started));
});
