// What a model writes, as elements whose text it is: fenced blocks and `code`, nothing else has a meaning. No string ever
// becomes markup, so that nothing that a model writes can.

const FENCE = /^ {0,3}(`{3,}|~{3,})[^`]*$/;

/** Puts `text` into `place`. A block that is not closed yet is a block already, as text arrives bit by bit. */
function showText(place, text) {
  const parts = [];
  let prose = [];
  let code = null;
  let fence = "";
  const endProse = () => {
    const joined = prose.join("\n").replace(/^\n+|\n+$/g, "");
    if (joined) parts.push(paragraph(joined));
    prose = [];
  };
  for (const line of text.split("\n")) {
    const found = FENCE.exec(line);
    if (code === null && found) {
      endProse();
      fence = found[1];
      code = [];
    } else if (code !== null && line.trim().startsWith(fence) && line.trim().replaceAll(fence[0], "") === "") {
      parts.push(block(code));
      code = null;
    } else (code ?? prose).push(line);
  }
  if (code !== null) parts.push(block(code));
  endProse();
  place.replaceChildren(...parts);
}

function block(lines) {
  const code = element("code", lines.join("\n"));
  const pre = element("pre");
  pre.append(code);
  return pre;
}

function paragraph(text) {
  const place = element("p");
  text.split(/(`[^`\n]+`)/).forEach((part, i) => place.append(i % 2 ? element("code", part.slice(1, -1)) : part));
  return place;
}

/** An element with text and a class. */
function element(tag, text = "", name = "") {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (name) made.className = name;
  return made;
}
