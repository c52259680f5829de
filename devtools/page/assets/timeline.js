// The strip of times (run, module, line, instruction, operation of a delegate) and the picture of the memory plan.
import { bytes, cut, fitted, make, palette, time } from "./dom.js";

const ROW = 17;

/** A canvas whose horizontal axis can be zoomed with the wheel and moved by dragging. */
class Strip {
  constructor(label) {
    this.canvas = make("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.canvas.tabIndex = 0;
    this.low = 0;
    this.high = 1;
    this.dirty = false;
    let grabbed = null;
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const at = this.low + (event.offsetX / this.canvas.clientWidth) * (this.high - this.low);
        const by = Math.exp(Math.sign(event.deltaY) * 0.25);
        this.range(at - (at - this.low) * by, at + (this.high - at) * by);
      },
      { passive: false },
    );
    this.canvas.addEventListener("pointerdown", (event) => {
      grabbed = { x: event.offsetX, low: this.low, high: this.high, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (grabbed && Math.abs(event.offsetX - grabbed.x) > 3) grabbed.moved = true;
      if (grabbed && grabbed.moved) {
        const by = ((grabbed.x - event.offsetX) / this.canvas.clientWidth) * (grabbed.high - grabbed.low);
        this.range(grabbed.low + by, grabbed.high + by);
      } else this.pointed(event.offsetX, event.offsetY);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (grabbed && !grabbed.moved) this.clicked(event.offsetX, event.offsetY);
      grabbed = null;
    });
    this.canvas.addEventListener("pointerleave", () => this.pointed(-1, -1));
    this.canvas.addEventListener("dblclick", () => this.range(0, 1));
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
  }

  range(low, high) {
    const wide = Math.min(Math.max(high - low, 1e-6), 1);
    this.low = Math.min(Math.max(low, 0), 1 - wide);
    this.high = this.low + wide;
    this.redraw();
  }

  redraw() {
    if (this.dirty) return;
    this.dirty = true;
    requestAnimationFrame(() => {
      this.dirty = false;
      this.draw();
    });
  }
}

/** Times of one method, in the order of its instructions. */
export class Flame extends Strip {
  constructor(model, method, on) {
    super("time of a run by module, source line and instruction");
    this.model = model;
    this.on = on;
    this.origins = [];
    this.#frames(method);
  }

  #frames(method) {
    const parts = this.model.parts.filter((part) => part.method === method);
    const total = parts.reduce((sum, part) => sum + part.ms, 0) || 1;
    const deepest = 6;
    const stacks = parts.map((part) => {
      const origin = [...part.origins].find((o) => this.model.where(o)) ?? part.origins[0];
      const path = origin === undefined ? [] : this.model.path(origin).split(".").filter(Boolean);
      const stack = path.slice(0, deepest);
      const where = origin === undefined ? "" : this.model.where(origin);
      if (where) stack.push(where.replace(/^.*\//, ""));
      const table = this.model.instructions[method];
      const operator = table.operators[table.operator[part.index]];
      stack.push(part.label || (part.level ? part.level.opName(part.row) : operator.replace(/^aten::/, "")));
      return stack;
    });
    this.frames = [];
    this.depth = 1 + Math.max(1, ...stacks.map((stack) => stack.length));
    this.frames.push({ depth: 0, name: `run, ${time(total)}`, start: 0, end: 1, ms: total, from: 0, to: parts.length });
    let open = [];
    let at = 0;
    parts.forEach((part, index) => {
      const stack = stacks[index];
      let same = 0;
      while (same < open.length && same < stack.length - 1 && open[same].name === stack[same]) same++;
      open = open.slice(0, same);
      const end = at + part.ms / total;
      for (const frame of open) {
        frame.end = end;
        frame.ms += part.ms;
        frame.to = index + 1;
      }
      for (let depth = same; depth < stack.length; depth++) {
        const leaf = depth === stack.length - 1;
        const frame = { depth: depth + 1, name: stack[depth], start: at, end, ms: part.ms, from: index, to: index + 1, leaf };
        this.frames.push(frame);
        if (!leaf) open.push(frame);
      }
      at = end;
    });
    this.parts = parts;
    this.longest = parts.reduce((most, part) => Math.max(most, part.ms), 0);
  }

  get height() {
    return Math.min(this.depth, 9) * ROW + 4;
  }

  #originsOf(frame) {
    const found = new Set();
    for (let i = frame.from; i < frame.to; i++) for (const origin of this.parts[i].origins) found.add(origin);
    return [...found];
  }

  #frameAt(x, y) {
    if (x < 0) return null;
    const depth = Math.floor(y / ROW);
    const at = this.low + (x / this.canvas.clientWidth) * (this.high - this.low);
    let found = null;
    for (const frame of this.frames) if (frame.depth === depth && frame.start <= at && at < frame.end) found = frame;
    return found;
  }

  pointed(x, y) {
    const frame = this.#frameAt(x, y);
    if (frame === this.under) return;
    this.under = frame;
    this.on.hover(frame && frame.depth ? this.#originsOf(frame) : [], this, null);
    this.on.tip(frame ? `${frame.name}: ${time(frame.ms)}` : "", x, y, this.canvas);
  }

  clicked(x, y) {
    const frame = this.#frameAt(x, y);
    if (frame) this.on.pin(this.#originsOf(frame), this, null);
  }

  light(origins) {
    this.origins = origins;
    this.redraw();
  }

  draw() {
    if (!this.canvas.clientHeight) return;
    const { context, width } = fitted(this.canvas);
    const colors = palette();
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const lit = new Set(this.origins);
    let upTo = null;
    if (lit.size) {
      upTo = new Int32Array(this.parts.length + 1);
      this.parts.forEach((part, i) => {
        upTo[i + 1] = upTo[i] + (part.origins.some((origin) => lit.has(origin)) ? 1 : 0);
      });
    }
    const scale = width / (this.high - this.low);
    const painted = new Float64Array(this.depth + 1).fill(-1);
    for (const frame of this.frames) {
      const x = (frame.start - this.low) * scale;
      const wide = (frame.end - frame.start) * scale;
      if (x > width || x + wide < 0) continue;
      // Of many in one pixel the first stands for the rest.
      if (wide < 1 && x < painted[frame.depth] + 1) continue;
      painted[frame.depth] = x;
      const y = frame.depth * ROW;
      const on = !upTo || upTo[frame.to] > upTo[frame.from];
      context.globalAlpha = on ? 1 : 0.25;
      context.fillStyle = frame.leaf ? colors.heat : colors.box;
      if (frame.leaf) context.globalAlpha *= 0.35 + 0.65 * (frame.ms / this.longest);
      context.fillRect(x, y, Math.max(wide - 0.5, 0.5), ROW - 1);
      context.globalAlpha = on ? 1 : 0.4;
      if (wide > 24) {
        context.fillStyle = colors.text;
        const left = Math.max(x, 0);
        context.fillText(cut(context, frame.name, Math.min(x + wide, width) - left - 8), left + 4, y + ROW / 2);
      }
    }
    context.globalAlpha = 1;
  }
}

/** One pool of a method's plan: instructions to the right, bytes upward. */
export class MemoryMap extends Strip {
  constructor(model, method, pool, on) {
    super("memory plan: instructions to the right, bytes upward");
    this.model = model;
    this.method = method;
    this.pool = pool;
    this.on = on;
    const plan = model.data.memory[method];
    this.plan = plan;
    this.size = plan.pools[pool] || 1;
    this.count = Math.max(plan.instructions, 1);
    const bounds = plan.bounds[String(pool)] || { alive: [], peak: null, bound: 0 };
    this.peak = bounds.peak;
    this.alive = new Set(bounds.alive);
    this.clash = new Set(plan.overlaps.flatMap(([a, b]) => [a, b]));
    this.boxes = [];
    plan.pool.forEach((of, index) => {
      if (of !== pool || plan.offset[index] < 0) return;
      for (const [first, last] of plan.live[index]) this.boxes.push({ index, first, last });
    });
    this.origins = [];
    this.cursor = -1;
  }

  #geometry() {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    const scale = width / (this.high - this.low) / this.count;
    return { width, height, x: (at) => at * scale - (this.low * width) / (this.high - this.low), scale, y: (at) => height - 14 - (at / this.size) * (height - 18) };
  }

  #boxAt(x, y) {
    if (x < 0) return null;
    const g = this.#geometry();
    let found = null;
    for (const box of this.boxes) {
      const offset = this.plan.offset[box.index];
      if (x < g.x(box.first) || x >= Math.max(g.x(box.last + 1), g.x(box.first) + 2)) continue;
      if (y <= g.y(offset) && y >= g.y(offset + this.plan.bytes[box.index])) found = box;
    }
    return found;
  }

  originsOf(index) {
    return this.model.memoryOrigins(this.method, index);
  }

  pointed(x, y) {
    const box = this.#boxAt(x, y);
    if (box === this.under) return;
    this.under = box;
    const text = box
      ? `%${this.plan.name[box.index]}: ${bytes(this.plan.bytes[box.index])} at ${this.plan.offset[box.index].toLocaleString("en")}, instructions ${box.first} to ${box.last}`
      : "";
    this.on.hover(box ? this.originsOf(box.index) : [], this, box ? { buffer: box.index, method: this.method } : null);
    this.on.tip(text, x, y, this.canvas);
  }

  clicked(x, y) {
    const box = this.#boxAt(x, y);
    if (box) this.on.pin(this.originsOf(box.index), this, { buffer: box.index, method: this.method });
  }

  light(origins) {
    this.origins = origins;
    const { holders } = this.model.instructions[this.method];
    const at = new Set();
    if (origins.length < 200) for (const origin of origins) for (const index of holders.row(origin)) at.add(index);
    this.litAt = [...at];
    this.redraw();
  }

  draw() {
    if (!this.canvas.clientHeight) return;
    const { context, width, height } = fitted(this.canvas);
    const colors = palette();
    const g = this.#geometry();
    const lit = new Set(this.origins);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const key = [this.low, this.high, width, height, colors.bg, colors.box].join();
    if (this.baseOf !== key) {
      for (const box of this.boxes) this.#drawBox(context, g, colors, box, width, false);
      this.base = document.createElement("canvas");
      this.base.width = this.canvas.width;
      this.base.height = this.canvas.height;
      this.base.getContext("2d").drawImage(this.canvas, 0, 0);
      this.baseOf = key;
      context.clearRect(0, 0, width, height);
    }
    context.globalAlpha = lit.size ? 0.3 : 1;
    context.drawImage(this.base, 0, 0, width, height);
    context.globalAlpha = 1;
    if (lit.size) {
      const shown = new Set();
      for (const origin of lit) {
        for (const box of this.#boxesOf(origin)) {
          if (shown.has(box)) continue;
          shown.add(box);
          this.#drawBox(context, g, colors, box, width, true);
        }
      }
    }
    context.globalAlpha = 1;
    const middle = (index) => g.x(index + 0.5);
    if (this.litAt && lit.size) {
      context.fillStyle = colors.pin;
      for (const index of this.litAt) context.fillRect(middle(index) - 0.75, height - 14, 1.5, 5);
    }
    context.strokeStyle = colors.line;
    context.beginPath();
    context.moveTo(0, height - 13.5);
    context.lineTo(width, height - 13.5);
    context.stroke();
    context.fillStyle = colors.muted;
    const steps = Math.max(1, Math.floor(width / 120));
    let before = -1;
    for (let i = 0; i <= steps; i++) {
      const index = Math.round((this.low + ((this.high - this.low) * i) / steps) * (this.count - 1));
      if (index === before) continue;
      before = index;
      context.textAlign = i === 0 ? "left" : i === steps ? "right" : "center";
      context.fillText(String(index), (i / steps) * width, height - 5);
    }
    context.textAlign = "left";
    if (this.peak !== null) {
      const x = middle(this.peak);
      context.strokeStyle = colors.peak2;
      context.setLineDash([4, 3]);
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height - 14);
      context.stroke();
      context.setLineDash([]);
    }
  }

  #boxesOf(origin) {
    if (!this.byOrigin) {
      this.byOrigin = new Map();
      for (const box of this.boxes) {
        for (const known of this.originsOf(box.index)) {
          if (!this.byOrigin.has(known)) this.byOrigin.set(known, []);
          this.byOrigin.get(known).push(box);
        }
      }
    }
    return this.byOrigin.get(origin) || [];
  }

  #drawBox(context, g, colors, box, width, on) {
    const { index } = box;
    const left = g.x(box.first);
    const wide = Math.max(g.x(box.last + 1) - left, 1);
    if (left > width || left + wide < 0) return;
    const offset = this.plan.offset[index];
    const top = g.y(offset + this.plan.bytes[index]);
    const tall = Math.max(g.y(offset) - top, 1);
    const clash = this.clash.has(index);
    const alive = this.alive.has(index);
    const plain = this.plan.state[index] === null ? colors.box : colors.state;
    context.fillStyle = clash ? colors.bad : alive ? this.#hatch(context, colors) : plain;
    context.fillRect(left, top, Math.max(wide - 0.5, 0.5), Math.max(tall - 0.5, 0.5));
    if (on) {
      context.strokeStyle = colors.pin;
      context.lineWidth = 1.5;
      context.strokeRect(left, top, wide, tall);
    }
    const from = Math.max(left, 0);
    const room = Math.min(left + wide, width) - from - 6;
    if (tall >= 13 && room > 30) {
      context.fillStyle = clash ? colors.paper : alive ? colors.ink : colors.text;
      context.fillText(cut(context, `%${this.plan.name[index]}`, room), from + 3, top + tall / 2);
    }
  }

  #hatch(context, colors) {
    if (this.pattern && this.patternOf === colors.peak) return this.pattern;
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const inside = tile.getContext("2d");
    inside.fillStyle = colors.peak;
    inside.fillRect(0, 0, 8, 8);
    inside.strokeStyle = colors.peak2;
    inside.globalAlpha = 0.45;
    inside.lineWidth = 1.5;
    for (const at of [-8, 0, 8]) {
      inside.beginPath();
      inside.moveTo(at, 8);
      inside.lineTo(at + 8, 0);
      inside.stroke();
    }
    this.patternOf = colors.peak;
    return (this.pattern = context.createPattern(tile, "repeat"));
  }
}
