// Search: rows of all levels that are shown and source lines, by text or regular expression.
import { byId, count, make } from "./dom.js";
import { DECLARES } from "./model.js";

const MOST = 60;
const LIMIT = 5000;

/** What tells whether a text fits. */
function matcher(query) {
  const regex = /^\/(.+)\/(i?)$/.exec(query);
  if (regex) {
    try {
      const found = new RegExp(regex[1], regex[2]);
      return (text) => found.test(text);
    } catch {
      return null;
    }
  }
  const wanted = query.toLowerCase();
  return (text) => text.toLowerCase().includes(wanted);
}

export function find(model, levels, query) {
  const fits = matcher(query);
  if (!fits) return null;
  const found = [];
  const whole = /^(.*\.py):(\d+)$/.exec(query);
  const places = new Set();
  for (let origin = 0; origin < model.count; origin++) {
    const where = model.where(origin);
    if (whole ? where === query || where.endsWith(`/${query}`) : fits(model.path(origin)) || fits(model.origins.name[origin]) || fits(where)) {
      places.add(origin);
    }
  }
  for (const level of levels) {
    for (let row = 0; row < level.line.length && found.length < LIMIT; row++) {
      if (level.structure(row)) continue;
      const text = level.lines[level.line[row]];
      if (fits(text) || level.origins.row(row).some((origin) => places.has(origin))) found.push({ level, row, text });
    }
  }
  // What a program does before what it declares.
  const declares = ({ level, row }) => (DECLARES.test(level.opName(row)) ? 1 : 0);
  return found.sort((a, b) => declares(a) - declares(b));
}

/** The box in the header and what it found. */
export class Search {
  constructor(model, shown, on) {
    this.input = byId("search");
    this.results = byId("results");
    this.model = model;
    this.on = on;
    this.at = -1;
    this.found = [];
    this.waiting = 0;
    this.input.addEventListener("input", () => {
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.run(shown()), 120);
    });
    this.input.addEventListener("focus", () => this.input.value && this.run(shown()));
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp" || event.key === "Enter") {
        event.preventDefault();
        if (this.waiting || !this.found.length) this.run(shown()); // what is typed, not what was found before
        const by = event.key === "ArrowUp" || (event.key === "Enter" && event.shiftKey) ? -1 : 1;
        this.go(this.at + by);
      } else if (event.key === "Escape") {
        this.close();
        this.input.blur();
        event.stopPropagation();
      }
    });
    document.addEventListener("pointerdown", (event) => {
      if (!event.target.closest("#results, #search")) this.close();
    });
  }

  close() {
    this.results.hidden = true;
  }

  run(levels) {
    clearTimeout(this.waiting);
    this.waiting = 0;
    const query = this.input.value.trim();
    this.at = -1;
    this.found = [];
    if (!query) return this.close();
    const found = find(this.model, levels, query);
    this.found = found || [];
    const total = this.found.length;
    const note = found === null ? "not a regular expression" : `${count(total, "row")}${total >= LIMIT ? " or more" : ""}`;
    const rows = this.found.slice(0, MOST).map(({ level, text }, index) => {
      const row = make("button", "result", make("span", "muted", level.name), make("span", "what", text.trim()));
      row.addEventListener("click", () => this.go(index));
      return row;
    });
    this.results.replaceChildren(make("p", "muted", note), ...rows);
    this.results.hidden = false;
  }

  go(index) {
    if (!this.found.length) return;
    this.at = (index + this.found.length) % this.found.length;
    const { level, row } = this.found[this.at];
    for (const element of this.results.querySelectorAll(".result.now")) element.classList.remove("now");
    const shown = this.results.querySelectorAll(".result")[this.at];
    if (shown) {
      shown.classList.add("now");
      shown.scrollIntoView({ block: "nearest" });
    }
    this.on.goTo(level, row);
  }
}
