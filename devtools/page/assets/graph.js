// A level as a graph on a canvas: boxes of modules that open and close, only what is in sight is drawn.
import { cut, fitted, make, ms, palette } from "./dom.js";
import { DECLARES } from "./model.js";
import { groupsOf, layout, openSome, shownFor } from "./layout.js";

const OPEN = 200;
const SMALL = 0.18;

export class GraphView {
  /** Whether a level has edges to draw. */
  static fits(level) {
    return level.operandSteps.some((steps) => (typeof steps === "number" ? steps > 0 : steps.length)) && level.instruction === null;
  }

  constructor(model, level, on, pane) {
    this.model = model;
    this.level = level;
    this.on = on;
    this.pane = pane;
    this.canvas = make("canvas");
    this.canvas.setAttribute("aria-label", `graph of level ${level.name}`);
    const tool = (text, title, action) => {
      const button = make("button", "small", text);
      button.title = title;
      button.addEventListener("click", action);
      return button;
    };
    const tools = make(
      "div",
      "tools",
      tool("all", "open all boxes", () => this.openAll(true)),
      tool("none", "close all boxes", () => this.openAll(false)),
      tool("fit", "show all", () => this.fit()),
      tool("SVG", "save what is laid out as SVG", () => this.save()),
    );
    this.element = make("div", "graphview", this.canvas, tools);
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.lit = new Set();
    this.dirty = false;
    this.#listen();
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
  }

  start() {
    if (this.root) return this.redraw();
    const { level, model } = this;
    const rows = [];
    for (let row = 0; row < level.line.length; row++) {
      if (!level.structure(row) && !DECLARES.test(level.opName(row))) rows.push(row);
    }
    const known = new Set(rows);
    const pathOf = (row) => {
      for (const origin of level.origins.row(row)) if (model.origins.file[origin] >= 0) return model.path(origin).split(".").filter(Boolean);
      return [];
    };
    ({ root: this.root, homeOf: this.homeOf } = groupsOf(rows, pathOf));
    this.edges = [];
    level.operandSteps.forEach((steps, row) => {
      if (!known.has(row)) return;
      for (const step of typeof steps === "number" ? [steps] : steps) {
        if (step > 0 && known.has(row - step)) this.edges.push([row - step, row]);
      }
    });
    openSome(this.root, OPEN);
    this.relayout();
    this.first();
  }

  /** Give everything its place; the milliseconds that took. */
  relayout() {
    const began = performance.now();
    layout(this.root, this.homeOf, this.edges);
    this.lines = new Map();
    for (const [from, to] of this.edges) {
      const a = shownFor(this.homeOf.get(from));
      const b = shownFor(this.homeOf.get(to));
      if (a === b) continue;
      if (!this.lines.has(a)) this.lines.set(a, new Set());
      this.lines.get(a).add(b);
    }
    this.redraw();
    return performance.now() - began;
  }

  openAll(open) {
    const set = (group) => {
      for (const child of group.children) {
        if (!child.children) continue;
        child.open = open;
        set(child);
      }
    };
    set(this.root);
    const took = this.relayout();
    if (open) this.redraw();
    else this.fit();
    return took;
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.scale = Math.min(1, width / this.root.width, height / this.root.height);
    this.x = (width - this.root.width * this.scale) / 2;
    this.y = 0;
    this.redraw();
  }

  /** As large as can be read, from the top. */
  first() {
    const { clientWidth: width } = this.canvas;
    this.scale = Math.min(1, Math.max(0.55, width / this.root.width));
    const top = this.root.children[0];
    this.x = top ? width / 2 - (top.x + top.width / 2) * this.scale : 0;
    this.y = 0;
    this.redraw();
  }

  light(origins, still) {
    this.lit = new Set(this.level.rowsOf(origins).filter((row) => this.homeOf && this.homeOf.has(row)));
    this.litParts = new Set([...this.lit].map((row) => shownFor(this.homeOf.get(row))));
    if (!still && this.litParts.size && this.pane.element.classList.contains("graph")) this.#bring([...this.litParts][0]);
    this.redraw();
  }

  #bring(part) {
    const { x, y } = this.#absolute(part);
    const left = this.x + x * this.scale;
    const top = this.y + y * this.scale;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (left > 0 && top > 0 && left + part.width * this.scale < width && top + part.height * this.scale < height) return;
    this.x = width / 2 - (x + part.width / 2) * this.scale;
    this.y = height / 2 - (y + part.height / 2) * this.scale;
  }

  #absolute(part) {
    let { x, y } = part;
    for (let group = part.parent; group && group.parent; group = group.parent) {
      x += group.x;
      y += group.y;
    }
    return { x, y };
  }

  #partAt(px, py) {
    let x = (px - this.x) / this.scale;
    let y = (py - this.y) / this.scale;
    let found = null;
    for (let group = this.root; group; ) {
      const child = group.children.find((c) => x >= c.x && x < c.x + c.width && y >= c.y && y < c.y + c.height);
      if (!child) return found;
      found = child;
      if (!child.children || !child.open) return found;
      x -= child.x;
      y -= child.y;
      group = child;
    }
    return found;
  }

  #rowsIn(part) {
    return part.children ? part.children.flatMap((child) => this.#rowsIn(child)) : [part.row];
  }

  #originsOf(part) {
    return [...new Set(this.#rowsIn(part).flatMap((row) => [...this.level.origins.row(row)]))];
  }

  #listen() {
    let grabbed = null;
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      grabbed = { x: event.offsetX, y: event.offsetY, fromX: this.x, fromY: this.y, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (grabbed) {
        const [dx, dy] = [event.offsetX - grabbed.x, event.offsetY - grabbed.y];
        if (Math.abs(dx) + Math.abs(dy) > 4) grabbed.moved = true;
        if (grabbed.moved) {
          this.x = grabbed.fromX + dx;
          this.y = grabbed.fromY + dy;
          this.redraw();
        }
        return;
      }
      const part = this.#partAt(event.offsetX, event.offsetY);
      if (part === this.under) return;
      this.under = part;
      const at = part && part.row !== undefined ? { level: this.level, row: part.row } : null;
      this.on.hover(part && !(part.children && part.open) ? this.#originsOf(part) : [], this.pane, at);
    });
    canvas.addEventListener("pointerup", (event) => {
      const part = grabbed && !grabbed.moved ? this.#partAt(event.offsetX, event.offsetY) : null;
      grabbed = null;
      if (!part) return;
      if (part.children) {
        const before = this.#absolute(part);
        part.open = !part.open;
        this.relayout();
        const after = this.#absolute(part);
        this.x += (before.x - after.x) * this.scale;
        this.y += (before.y - after.y) * this.scale;
      } else this.on.pin(this.#originsOf(part), this.pane, { level: this.level, row: part.row });
    });
    canvas.addEventListener("pointerleave", () => {
      this.under = null;
      this.on.hover([], this.pane, null);
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const by = Math.exp(-Math.sign(event.deltaY) * 0.2);
        const scale = Math.min(Math.max(this.scale * by, 0.002), 3);
        this.x = event.offsetX - ((event.offsetX - this.x) * scale) / this.scale;
        this.y = event.offsetY - ((event.offsetY - this.y) * scale) / this.scale;
        this.scale = scale;
        this.redraw();
      },
      { passive: false },
    );
  }

  redraw() {
    if (this.dirty) return;
    this.dirty = true;
    requestAnimationFrame(() => {
      this.dirty = false;
      if (this.root) this.draw();
    });
  }

  /** The text of an operation's node. */
  #label(row) {
    return this.level.opName(row).replace(/^(edge\.)?aten\./, "").replace(/\.default$/, "");
  }

  draw() {
    if (!this.canvas.clientHeight) return;
    const { context, width, height } = fitted(this.canvas);
    const colors = palette();
    const { scale } = this;
    context.textBaseline = "middle";
    const drawn = [];
    const boxes = (group, left, top, depth) => {
      for (const part of group.children) {
        const x = left + part.x * scale;
        const y = top + part.y * scale;
        const w = part.width * scale;
        const h = part.height * scale;
        if (x > width || y > height || x + w < 0 || y + h < 0) continue;
        if (part.children && part.open && w > 3) {
          context.fillStyle = depth % 2 ? colors.panel : colors.bg;
          context.strokeStyle = colors.line;
          context.lineWidth = 1;
          context.fillRect(x, y, w, h);
          context.strokeRect(x, y, w, h);
          boxes(part, x, y, depth + 1);
        }
        drawn.push([part, x, y, w, h]);
      }
    };
    boxes(this.root, this.x, this.y, 0);
    this.#drawLines(context, colors, drawn, width, height);
    for (const [part, x, y, w, h] of drawn) this.#drawPart(context, colors, part, x, y, w, h);
  }

  #drawLines(context, colors, drawn, width, height) {
    const { scale } = this;
    if (scale < SMALL / 3) return;
    for (const [part, x, y, w, h] of drawn) {
      const targets = this.lines.get(part);
      if (!targets) continue;
      for (const target of targets) {
        const to = this.#absolute(target);
        const x1 = x + w / 2;
        const y1 = y + h;
        const x2 = this.x + (to.x + target.width / 2) * scale;
        const y2 = this.y + to.y * scale;
        const lit = this.litParts && (this.litParts.has(part) || this.litParts.has(target));
        context.strokeStyle = lit ? colors.pin : colors.muted;
        context.globalAlpha = lit ? 1 : 0.45;
        context.lineWidth = lit ? 1.8 : 1;
        const bend = Math.min(Math.max((y2 - y1) / 2, 8 * scale), 60 * scale);
        context.beginPath();
        context.moveTo(x1, y1);
        context.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2);
        context.stroke();
      }
    }
    context.globalAlpha = 1;
  }

  #drawPart(context, colors, part, x, y, w, h) {
    const { scale, level } = this;
    const size = Math.max(Math.min(12 * scale, 13), 1);
    const lit = this.litParts && this.litParts.has(part);
    const group = Boolean(part.children);
    if (group && part.open) {
      if (scale < SMALL) return;
      context.font = `600 ${Math.max(size, 9)}px system-ui, sans-serif`;
      context.fillStyle = colors.muted;
      context.fillText(cut(context, part.name, w - 8), Math.max(x, 0) + 5, y + 12 * scale);
      return;
    }
    const stripe = group ? null : this.pane.colorOf && this.pane.colorOf(level, part.row);
    context.globalAlpha = this.litParts && this.litParts.size && !lit ? 0.55 : 1;
    context.fillStyle = lit ? colors.lit : group ? colors.box : colors.panel;
    context.strokeStyle = lit ? colors.pin : colors.muted;
    context.lineWidth = lit ? 2 : 1;
    context.fillRect(x, y, w, h);
    if (scale >= SMALL) context.strokeRect(x, y, w, h);
    if (stripe) {
      context.fillStyle = /^var\(--(\w+)\)$/.test(stripe) ? colors[RegExp.$1] || colors.series[Number(RegExp.$1.slice(1))] : stripe;
      context.fillRect(x, y, 4 * scale, h);
    }
    if (scale >= SMALL * 1.6) {
      context.font = `${size}px system-ui, sans-serif`;
      context.fillStyle = colors.text;
      const text = group ? `▸ ${part.name} (${part.count})` : this.#label(part.row);
      const time = !group && level.ms && level.ms[part.row] ? ms(level.ms[part.row]) : "";
      const right = time ? context.measureText(time).width + 6 * scale : 0;
      context.fillText(cut(context, text, w - right - 12 * scale), x + 8 * scale, y + h / 2);
      if (time) {
        context.fillStyle = colors.muted;
        context.fillText(time, x + w - right, y + h / 2);
      }
    }
    context.globalAlpha = 1;
  }

  /** The graph as laid out, as a file of its own. */
  svg() {
    const space = "http://www.w3.org/2000/svg";
    const element = (tag, attributes, text) => {
      const made = document.createElementNS(space, tag);
      for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
      if (text !== undefined) made.textContent = text;
      return made;
    };
    const root = element("svg", { viewBox: `0 0 ${this.root.width} ${this.root.height}`, "font-family": "sans-serif", "font-size": 12 });
    const add = (group, left, top) => {
      for (const part of group.children) {
        const [x, y] = [left + part.x, top + part.y];
        const open = part.children && part.open;
        root.append(element("rect", { x, y, width: part.width, height: part.height, fill: open ? "none" : part.children ? "#bcd7ec" : "#fff", stroke: "#667" }));
        const text = part.children ? part.name : this.#label(part.row);
        root.append(element("text", { x: x + 6, y: open ? y + 16 : y + part.height / 2 + 4 }, text));
        if (open) add(part, x, y);
      }
    };
    add(this.root, 0, 0);
    for (const [from, targets] of this.lines) {
      const a = this.#absolute(from);
      for (const target of targets) {
        const b = this.#absolute(target);
        const [x1, y1, x2, y2] = [a.x + from.width / 2, a.y + from.height, b.x + target.width / 2, b.y];
        const bend = Math.min(Math.max((y2 - y1) / 2, 8), 60);
        root.append(element("path", { d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`, fill: "none", stroke: "#889" }));
      }
    }
    return new XMLSerializer().serializeToString(root);
  }

  save() {
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([this.svg()], { type: "image/svg+xml" }));
    link.download = `${this.level.name}.svg`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}
