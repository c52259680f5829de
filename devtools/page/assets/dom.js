// Elements and numbers. Text reaches the page through these functions only, as text.

/** An element with a class, texts and children. */
export function make(tag, className = "", ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

export const byId = (id) => document.getElementById(id);

let perMs = 1;

/** Times are written in milliseconds, or in microseconds where a whole run is short. */
export function writeTimesOf(whole) {
  perMs = whole < 2 ? 1000 : 1;
}

/** The unit of all times in the page. */
export const unit = () => (perMs === 1 ? "ms" : "µs");

/** A time without its unit, in three digits that matter. */
export function ms(value) {
  const shown = value * perMs;
  if (!shown) return "0";
  if (shown >= 100) return shown.toLocaleString("en", { maximumFractionDigits: 0 });
  if (shown >= 10) return shown.toFixed(1);
  if (shown >= 1) return shown.toFixed(2);
  return shown >= 0.0005 ? shown.toFixed(3) : "<.001";
}

export const time = (value) => `${ms(value)} ${unit()}`;

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(value) {
  let unit = 0;
  let rest = value;
  while (rest >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit++;
  }
  return `${unit && rest < 100 ? rest.toFixed(1) : Math.round(rest)} ${UNITS[unit]}`;
}

export const count = (value, one, many = `${one}s`) => `${value.toLocaleString("en")} ${value === 1 ? one : many}`;

const TOKENS =
  /("(?:[^"\\]|\\.)*")|(%[\w$.\-]+)|(@(?:"[^"]*"|[\w$.\-]+))|(![\w.]+|\btensor<[^>]*>|\bmemref<[^>]*>)|((?:^|= |^ +)(?:"[^"]+"|[a-z_]\w*\.[\w.]+))/g;
const CLASSES = ["", "t-string", "t-value", "t-symbol", "t-type", "t-op"];

/** The text of an operation with its parts marked, as children of an element. */
export function highlight(element, text) {
  const parts = [];
  let at = 0;
  let calls = false;
  for (const match of text.matchAll(TOKENS)) {
    let kind = 1;
    while (match[kind] === undefined) kind++;
    let start = match.index;
    let token = match[0];
    if (kind === 5) {
      const lead = /^(?:= | +)/.exec(token);
      if (lead) {
        start += lead[0].length;
        token = token.slice(lead[0].length);
      }
    }
    if (start > at) parts.push(text.slice(at, start));
    const span = document.createElement("span");
    // Of a call the kernel is what one looks for.
    span.className = calls ? "t-op" : token === "et.call" ? "t-call" : CLASSES[kind];
    calls = token === "et.call";
    span.textContent = token;
    parts.push(span);
    at = start + token.length;
  }
  if (at < text.length) parts.push(text.slice(at));
  element.replaceChildren(...parts);
}

const KEYWORDS =
  /(#.*$)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\b(def|class|return|if|else|elif|for|in|while|import|from|as|with|not|and|or|is|None|True|False|self|lambda|raise|assert|yield|try|except|pass)\b/g;

/** A line of Python with its parts marked. */
export function highlightPython(element, text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(KEYWORDS)) {
    if (match.index > at) parts.push(text.slice(at, match.index));
    const span = document.createElement("span");
    span.className = match[1] ? "t-comment" : match[2] ? "t-string" : "t-keyword";
    span.textContent = match[0];
    parts.push(span);
    at = match.index + match[0].length;
  }
  if (at < text.length) parts.push(text.slice(at));
  element.replaceChildren(...parts);
}

const palettes = new Map();

/** What a canvas draws with: the colors of the style sheet. */
export function palette() {
  const { theme } = document.documentElement.dataset;
  if (palettes.has(theme)) return palettes.get(theme);
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["bg", "panel", "line", "text", "muted", "accent", "lit", "pin", "heat", "bad", "ok", "peak", "peak2", "box", "state", "ink", "paper"];
  const found = Object.fromEntries(names.map((name) => [name, of(name)]));
  found.series = [0, 1, 2, 3, 4, 5, 6, 7].map((i) => of(`s${i}`));
  palettes.set(theme, found);
  return found;
}

/** A canvas as large as its element, in pixels of the screen; gives its context in units of the style sheet. */
export function fitted(canvas) {
  const scale = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

/** A text cut to a width. */
export function cut(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const per = context.measureText("n").width;
  const room = Math.floor(width / per) - 1;
  return room < 2 ? "" : `${text.slice(0, room)}…`;
}
