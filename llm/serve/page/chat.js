// The conversation, its settings, its numbers.

const at = (id) => document.getElementById(id);
const SETTINGS = [
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, range: true },
  { name: "top_p", label: "Top-p", min: 0.01, max: 1, step: 0.01, range: true },
  { name: "min_p", label: "Min-p", min: 0, max: 1, step: 0.01, range: true },
  { name: "top_k", label: "Top-k", min: 0, max: 1000, step: 1, hint: "0: all" },
  { name: "repetition_penalty", label: "Repetition penalty", min: 0.5, max: 2, step: 0.01 },
  { name: "max_tokens", label: "Most tokens", min: 1, max: 1e6, step: 1, hint: "no limit", optional: true },
  { name: "seed", label: "Seed", min: 0, max: 2 ** 53 - 1, step: 1, hint: "random", optional: true },
];
const KEPT = "et-llm";
const EVERY = 2000; // milliseconds between two looks at the server's numbers

const messages = []; // what the model is sent: { role, content }
let model = { id: "", context_length: 0, defaults: {} };
let running = null; // the AbortController of the answer that is being written

// --- settings ---------------------------------------------------------------------------------------------------------

const inputs = {};

function makeSettings() {
  for (const { name, label, min, max, step, hint, range } of SETTINGS) {
    const row = element("div", "", "setting");
    const title = element("label", label);
    const number = Object.assign(element("input"), { type: "number", id: `set-${name}`, min, max, step });
    number.placeholder = hint ?? "";
    title.htmlFor = number.id;
    row.append(title, number);
    if (range) {
      const slider = Object.assign(element("input"), { type: "range", min, max, step, tabIndex: -1 });
      slider.setAttribute("aria-label", label);
      slider.addEventListener("input", () => setValue(name, slider.value));
      number.addEventListener("input", () => (slider.value = number.value));
      inputs[name] = { number, slider };
      row.append(slider);
    } else inputs[name] = { number };
    number.addEventListener("input", keep);
    at("settings").append(row);
  }
}

function setValue(name, value) {
  const { number, slider } = inputs[name];
  number.value = value ?? "";
  if (slider) slider.value = value;
  keep();
}

function settings() {
  const chosen = {};
  for (const { name } of SETTINGS) {
    const { number } = inputs[name];
    if (number.value !== "" && number.validity.valid) chosen[name] = Number(number.value);
  }
  return chosen;
}

function reset() {
  for (const { name, optional } of SETTINGS) setValue(name, optional ? "" : model.defaults[name]);
}

/** Settings and the system prompt outlive the page; a browser that forbids that forgets them. */
function keep() {
  try {
    localStorage.setItem(KEPT, JSON.stringify({ system: at("system").value, settings: settings() }));
  } catch {}
}

function restore() {
  let kept = {};
  try {
    kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
  } catch {}
  at("system").value = kept.system ?? "";
  reset();
  for (const { name } of SETTINGS) if (name in (kept.settings ?? {})) setValue(name, kept.settings[name]);
}

// --- the conversation -------------------------------------------------------------------------------------------------

function addMessage(role) {
  const message = element("article", "", `message ${role}`);
  message.setAttribute("aria-label", role === "user" ? "You" : model.id);
  const body = element("div", "", "body");
  message.append(body);
  at("log").append(message);
  at("empty").hidden = true;
  return { message, body };
}

const near = () => at("scroll").scrollHeight - at("scroll").scrollTop - at("scroll").clientHeight < 60;
const toEnd = () => (at("scroll").scrollTop = at("scroll").scrollHeight);

async function send() {
  const text = at("input").value.trim();
  if (!text || running) return;
  at("input").value = "";
  fit();
  messages.push({ role: "user", content: text });
  showText(addMessage("user").body, text);
  toEnd();
  await answer();
}

/** Asks for the answer to the last message and shows it as it comes. */
async function answer() {
  const { message, body } = addMessage("assistant");
  const system = at("system").value.trim();
  const prompt = system ? [{ role: "system", content: system }, ...messages] : [...messages];
  const seen = { text: "", began: performance.now(), first: null, pieces: 0, usage: null, finish: null };
  running = new AbortController();
  message.classList.add("writing");
  at("log").setAttribute("aria-busy", "true");
  showState();
  toEnd();
  let drawn = false;
  const draw = () => {
    const follow = near();
    drawn = false;
    showText(body, seen.text);
    showLive(seen);
    if (follow) toEnd();
  };
  try {
    for await (const event of streamed({ messages: prompt, ...settings() }, running.signal)) {
      const [choice] = event.choices;
      if (event.usage) Object.assign(seen, { usage: event.usage, timings: event.timings });
      if (choice?.finish_reason) seen.finish = choice.finish_reason;
      if (!choice?.delta.content) continue;
      seen.first ??= performance.now();
      seen.pieces += 1;
      seen.text += choice.delta.content;
      if (!drawn) requestAnimationFrame(draw);
      drawn = true;
    }
  } catch (error) {
    seen.finish = error.name === "AbortError" ? "stopped" : "failed";
    if (seen.finish === "failed") message.append(element("div", error.message, "error"));
  }
  seen.ended = performance.now();
  running = null;
  message.classList.remove("writing");
  at("log").setAttribute("aria-busy", "false");
  draw();
  // What failed before its first token is no part of the conversation: the model would be sent an empty answer.
  if (seen.text) messages.push({ role: "assistant", content: seen.text });
  finish(message, seen);
  showState();
  look();
  if (near()) toEnd();
  at("input").focus();
}

const ENDS = { length: "cut at the most tokens, or at the context's end", stopped: "stopped", failed: "failed" };

function finish(message, seen) {
  for (const button of document.querySelectorAll(".again")) button.remove();
  const foot = element("div", "", "foot");
  const facts = [];
  if (seen.usage) facts.push(`${seen.usage.completion_tokens} tokens`, speed(seen), `first after ${seconds(seen.first - seen.began)}`);
  if (ENDS[seen.finish]) facts.push(ENDS[seen.finish]);
  foot.append(element("span", facts.filter(Boolean).join(" · "), "facts"));
  if (seen.text) foot.append(button("Copy", (own) => copy(own, seen.text)));
  const again = button("Again", () => {
    if (running) return;
    if (messages.at(-1)?.role === "assistant") messages.pop();
    message.remove();
    answer();
  });
  again.classList.add("again");
  foot.append(again);
  message.append(foot);
  showLive(seen);
}

function button(text, act) {
  const made = Object.assign(element("button", text, "quiet"), { type: "button" });
  made.addEventListener("click", () => act(made));
  return made;
}

async function copy(own, text) {
  try {
    await navigator.clipboard.writeText(text);
    own.textContent = "Copied";
  } catch {
    own.textContent = "Not allowed";
  }
  setTimeout(() => (own.textContent = "Copy"), 1500);
}

function clear() {
  running?.abort();
  messages.length = 0;
  at("log").replaceChildren();
  at("empty").hidden = false;
  for (const id of ["rate", "first", "tokens", "prompt"]) at(id).textContent = "–";
  showContext(0);
  at("input").focus();
}

// --- numbers ----------------------------------------------------------------------------------------------------------

const seconds = (milliseconds) => (milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`);

/** Tokens per second after the first one: what the server says, or what has come until now. */
function speed(seen) {
  const count = seen.usage ? seen.usage.completion_tokens : seen.pieces;
  const spent = seen.timings ? seen.timings.total_ms - seen.timings.first_token_ms : (seen.ended ?? performance.now()) - seen.first;
  return count > 1 && spent > 0 ? `${((count - 1) / (spent / 1000)).toFixed(1)} tokens/s` : "";
}

function showLive(seen) {
  if (seen.first === null) return;
  at("first").textContent = seconds(seen.first - seen.began);
  at("rate").textContent = speed(seen).replace(" tokens/s", "") || "–";
  at("tokens").textContent = seen.usage ? seen.usage.completion_tokens : seen.pieces;
  if (!seen.usage) return;
  const cached = seen.usage.prompt_tokens_details.cached_tokens;
  at("prompt").textContent = `${seen.usage.prompt_tokens}, ${cached} of them reused`;
  showContext(seen.usage.total_tokens);
}

function showContext(tokens) {
  at("context").textContent = model.context_length ? `${tokens} of ${model.context_length}` : "–";
  at("used").value = model.context_length ? tokens / model.context_length : 0;
}

function showState(gone = false) {
  const state = gone ? "gone" : running ? "busy" : "ready";
  at("state").dataset.state = state;
  at("state").textContent = { gone: "no server", busy: "writing", ready: "ready" }[state];
  at("send").textContent = running ? "Stop" : "Send";
  at("send").classList.toggle("stop", running !== null);
  at("send").disabled = !running && !at("input").value.trim();
}

async function look() {
  if (document.hidden) return;
  try {
    const found = await metrics();
    at("memory").textContent = found.resident_bytes ? `${Math.round(found.resident_bytes / 1e6)} MB` : "–";
    at("sessions").textContent = `${found.sessions} of ${found.sessions_limit}`;
    showState();
  } catch {
    showState(!running);
  }
}

// --- the page ---------------------------------------------------------------------------------------------------------

/** The input is as high as its text. */
function fit() {
  at("input").style.height = "auto";
  at("input").style.height = `${at("input").scrollHeight}px`;
  showState();
}

function showPanel(shown) {
  at("panel").hidden = !shown;
  at("toggle").setAttribute("aria-expanded", String(shown));
}

async function start() {
  makeSettings();
  at("send").addEventListener("click", () => (running ? running.abort() : send()));
  at("input").addEventListener("input", fit);
  at("input").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && running) running.abort();
    else if (event.key === "Escape" && narrow.matches) showPanel(false);
    else if (event.altKey && event.key.toLowerCase() === "n") clear();
    else return;
    event.preventDefault();
  });
  at("new").addEventListener("click", clear);
  at("reset").addEventListener("click", reset);
  at("system").addEventListener("input", keep);
  at("toggle").addEventListener("click", () => showPanel(at("panel").hidden));
  const narrow = matchMedia("(max-width: 820px)");
  narrow.addEventListener("change", () => showPanel(!narrow.matches));
  showPanel(!narrow.matches);
  try {
    model = await served();
    at("model").textContent = at("who").textContent = document.title = model.id;
    showContext(0);
    restore();
  } catch {
    showState(true);
  }
  await look();
  setInterval(look, EVERY);
  at("input").focus();
  document.body.dataset.ready = "1";
}

start();
