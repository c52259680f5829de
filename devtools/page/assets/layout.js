// Where the parts of a graph are. Operations stand in boxes of their modules; inside of a box they are in layers by the
// longest path, each layer ordered by barycenters, ties by the order of the program, so that levels look alike.

export const NODE = { width: 150, height: 24 };
const GAP = { x: 18, y: 26 };
const PAD = { side: 12, top: 26, bottom: 12 };
const SWEEPS = 4;
const WIDEST = 40;

/**
 * Modules of operations as a tree of boxes.
 * @param {number[]} rows in the order of the program
 * @param {(row: number) => string[]} pathOf
 */
export function groupsOf(rows, pathOf) {
  const root = { name: "", key: "", parent: null, children: [], groups: new Map(), count: 0, open: true, first: -1, depth: 0 };
  const homeOf = new Map();
  for (const row of rows) {
    let group = root;
    group.count++;
    for (const part of pathOf(row)) {
      let inner = group.groups.get(part);
      if (!inner) {
        const key = group.key ? `${group.key}.${part}` : part;
        inner = { name: part, key, parent: group, children: [], groups: new Map(), count: 0, open: false, first: row, depth: group.depth + 1 };
        group.groups.set(part, inner);
        group.children.push(inner);
      }
      group = inner;
      group.count++;
    }
    group.children.push({ row, parent: group, first: row, width: NODE.width, height: NODE.height });
    homeOf.set(row, group.children.at(-1));
  }
  return { root, homeOf };
}

/** Open boxes until about so many parts are in sight. */
export function openSome(root, most) {
  let count = root.children.length;
  let waiting = root.children.filter((child) => child.children);
  while (waiting.length) {
    const next = [];
    for (const group of waiting) {
      const fits = count + group.children.length <= most || group.children.length === 1;
      group.open = fits;
      if (!fits) continue;
      count += group.children.length;
      next.push(...group.children.filter((child) => child.children));
    }
    waiting = next;
  }
}

/** The part that stands for an operation: itself, or the outermost closed box around it. */
export function shownFor(home) {
  let shown = home;
  for (let group = home.parent; group.parent; group = group.parent) if (!group.open) shown = group;
  return shown;
}

/**
 * Gives every part in sight its place (x, y relative to its box) and every box its size.
 * @param {[number, number][]} edges rows, from and to
 */
export function layout(root, homeOf, edges) {
  const inside = new Map();
  const seen = new Set();
  const ids = new Map();
  const id = (part) => {
    if (!ids.has(part)) ids.set(part, ids.size);
    return ids.get(part);
  };
  for (const [from, to] of edges) {
    let a = shownFor(homeOf.get(from));
    let b = shownFor(homeOf.get(to));
    if (a === b) continue;
    const depth = (part) => part.parent.depth;
    while (depth(a) > depth(b)) a = a.parent;
    while (depth(b) > depth(a)) b = b.parent;
    while (a.parent !== b.parent) {
      a = a.parent;
      b = b.parent;
    }
    if (a === b) continue;
    const key = id(a) * 4194304 + id(b);
    if (seen.has(key)) continue;
    seen.add(key);
    if (!inside.has(a.parent)) inside.set(a.parent, []);
    // A box can be before and after another one: the order of the program breaks the circle.
    if (a.first <= b.first) inside.get(a.parent).push([a, b]);
  }
  place(root, inside);
  return root;
}

function place(group, inside) {
  for (const child of group.children) {
    if (!child.children) continue;
    if (child.open) place(child, inside);
    else {
      child.width = NODE.width + 20;
      child.height = NODE.height + 10;
    }
  }
  const edges = inside.get(group) || [];
  const layers = layered(group.children, edges);
  let y = group.parent ? PAD.top : PAD.side;
  let widest = 0;
  const widths = layers.map((layer) => layer.reduce((sum, part) => sum + part.width + GAP.x, -GAP.x));
  widest = Math.max(0, ...widths);
  layers.forEach((layer, index) => {
    let x = PAD.side + (widest - widths[index]) / 2;
    let tallest = 0;
    for (const part of layer) {
      part.x = x;
      part.y = y;
      x += part.width + GAP.x;
      tallest = Math.max(tallest, part.height);
    }
    y += tallest + GAP.y;
  });
  group.width = Math.max(widest + 2 * PAD.side, NODE.width);
  group.height = y - GAP.y + PAD.bottom;
}

function layered(parts, edges) {
  const position = new Map(parts.map((part, index) => [part, index]));
  const into = parts.map(() => []);
  const out = parts.map(() => []);
  for (const [a, b] of edges) {
    into[position.get(b)].push(position.get(a));
    out[position.get(a)].push(position.get(b));
  }
  const order = parts.map((_, index) => index).sort((a, b) => parts[a].first - parts[b].first || a - b);
  const layerOf = new Int32Array(parts.length);
  for (const index of order) for (const next of out[index]) layerOf[next] = Math.max(layerOf[next], layerOf[index] + 1);
  // What nothing in the box feeds stands right above its first reader.
  for (const index of order) {
    if (!into[index].length && out[index].length) {
      layerOf[index] = Math.max(0, out[index].reduce((least, next) => Math.min(least, layerOf[next]), Infinity) - 1);
    }
  }
  let layers = [];
  for (const index of order) (layers[layerOf[index]] ||= []).push(index);
  layers = layers.filter(Boolean);
  const rank = new Float64Array(parts.length);
  const renumber = (layer) => layer.forEach((index, at) => (rank[index] = at - layer.length / 2));
  layers.forEach(renumber);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      if (layer.length < 2) continue;
      const wanted = new Map();
      for (const index of layer) {
        const near = down ? into[index] : out[index];
        wanted.set(index, near.length ? near.reduce((sum, other) => sum + rank[other], 0) / near.length : rank[index]);
      }
      layer.sort((a, b) => wanted.get(a) - wanted.get(b) || parts[a].first - parts[b].first);
      renumber(layer);
    }
  }
  const packed = [];
  for (const layer of layers) {
    for (let at = 0; at < layer.length; at += WIDEST) packed.push(layer.slice(at, at + WIDEST).map((index) => parts[index]));
  }
  return packed;
}
