// A long list of lines of which only those in sight exist. Elements are used again when lines leave; what is lit is a
// class on them, so that lighting writes no text.
import { fitted, make, palette } from "./dom.js";

const HEIGHT = 18;
const SPARE = 8;
const MARKS = 7;

/** Pixels of so many lines. */
export const heightOf = (length) => length * HEIGHT;

export class List {
  /**
   * @param {string} label what a screen reader calls it
   * @param {number} length
   * @param {(element: HTMLElement, index: number) => void} fill writes a line into an element
   */
  constructor(label, length, fill) {
    this.length = length;
    this.fill = fill;
    this.lit = new Uint8Array(length);
    this.litLines = [];
    this.current = -1;
    this.elements = new Map();
    this.free = [];
    this.heat = null;
    this.inner = make("div", "inner");
    this.scroller = make("div", "scroller", this.inner);
    this.scroller.tabIndex = 0;
    this.scroller.setAttribute("role", "list");
    this.scroller.setAttribute("aria-label", label);
    this.marks = make("canvas", "marks");
    this.element = make("div", "list", this.scroller, this.marks);
    this.scroller.addEventListener("scroll", () => this.update(), { passive: true });
    this.marks.addEventListener("pointerdown", (event) => {
      this.show(Math.floor((event.offsetY / this.marks.clientHeight) * Math.max(this.length, this.marks.clientHeight / HEIGHT)), true);
    });
    new ResizeObserver(() => {
      this.update();
      this.drawMarks();
    }).observe(this.element);
    this.resize(length);
  }

  resize(length) {
    this.length = length;
    this.lit = new Uint8Array(length);
    this.litLines = [];
    this.inner.style.height = `${heightOf(length)}px`;
    this.refill();
  }

  /** Write all lines in sight again. */
  refill() {
    for (const element of this.elements.values()) {
      element.remove();
      this.free.push(element);
    }
    this.elements.clear();
    this.update();
  }

  update() {
    const top = this.scroller.scrollTop;
    const height = this.scroller.clientHeight;
    if (!height) return;
    const first = Math.max(0, Math.floor(top / HEIGHT) - SPARE);
    const last = Math.min(this.length, Math.ceil((top + height) / HEIGHT) + SPARE);
    for (const [index, element] of this.elements) {
      if (index < first || index >= last) {
        this.elements.delete(index);
        this.free.push(element);
      }
    }
    for (let index = first; index < last; index++) {
      if (this.elements.has(index)) continue;
      let element = this.free.pop();
      if (!element) {
        element = make("div", "row");
        element.setAttribute("role", "listitem");
      }
      element.style.transform = `translateY(${index * HEIGHT}px)`;
      element.dataset.index = String(index);
      this.fill(element, index);
      this.#classes(element, index);
      if (!element.isConnected) this.inner.append(element);
      this.elements.set(index, element);
    }
    for (const element of this.free) element.remove();
  }

  #classes(element, index) {
    element.classList.toggle("lit", this.lit[index] === 1);
    element.classList.toggle("current", index === this.current);
  }

  /** Light these lines, and bring the first into sight if none is; `still` where the pointer is in this list. */
  light(lines, still = false) {
    for (const line of this.litLines) this.lit[line] = 0;
    for (const line of lines) this.lit[line] = 1;
    this.litLines = lines;
    for (const [index, element] of this.elements) this.#classes(element, index);
    this.element.classList.toggle("dimmed", lines.length > 0);
    if (!still && lines.length) this.show(this.#nearest(lines), false, lines);
    this.drawMarks();
  }

  #nearest(lines) {
    const middle = (this.scroller.scrollTop + this.scroller.clientHeight / 2) / HEIGHT;
    let low = 0;
    let high = lines.length - 1;
    while (low < high) {
      const at = (low + high) >> 1;
      if (lines[at] < middle) low = at + 1;
      else high = at;
    }
    const before = lines[low - 1];
    return before !== undefined && middle - before < lines[low] - middle ? before : lines[low];
  }

  inSight(index) {
    const y = index * HEIGHT;
    return y >= this.scroller.scrollTop && y + HEIGHT <= this.scroller.scrollTop + this.scroller.clientHeight;
  }

  /** Scroll so that a line is in sight, unless it is. */
  show(index, always = false) {
    if (index < 0 || (!always && this.inSight(index))) return;
    this.scroller.scrollTop = Math.max(0, index * HEIGHT - this.scroller.clientHeight / 3);
  }

  /** Put a line at the top. */
  top(index) {
    this.scroller.scrollTop = index * HEIGHT;
  }

  select(index) {
    const before = this.elements.get(this.current);
    this.current = index;
    if (before) before.classList.remove("current");
    const now = this.elements.get(index);
    if (now) now.classList.add("current");
  }

  /** The line under an event, or -1. */
  at(event) {
    const row = event.target.closest ? event.target.closest(".row") : null;
    return row ? Number(row.dataset.index) : -1;
  }

  /** Beside the list: where it is hot, and what is lit. */
  drawMarks() {
    if (!this.marks.clientHeight || !this.length) return;
    const { context, width, height } = fitted(this.marks);
    const colors = palette();
    const all = Math.max(this.length, height / HEIGHT);
    const each = Math.max(height / all, 1.5);
    const y = (line) => (line / all) * height;
    if (this.heat) {
      context.fillStyle = colors.heat;
      for (const [line, share] of this.heat) {
        context.globalAlpha = 0.25 + 0.75 * share;
        context.fillRect(width - MARKS, y(line), MARKS, each);
      }
      context.globalAlpha = 1;
    }
    context.fillStyle = colors.pin;
    let last = -2;
    for (const line of this.litLines) {
      const at = Math.floor(y(line));
      if (at !== last) context.fillRect(0, at, width, Math.max(each, 2));
      last = at;
    }
  }
}
