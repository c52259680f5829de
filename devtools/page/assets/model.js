// What the page is about: the data, and the indices that its parts ask.

/** The data in the page: base64 of deflated JSON. */
export async function readData() {
  const element = document.getElementById("data");
  const text = element.textContent;
  let bytes;
  if (Uint8Array.fromBase64) {
    bytes = Uint8Array.fromBase64(text);
  } else {
    const binary = atob(text);
    bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  }
  element.remove();
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** Numbers from their differences. */
function summed(steps) {
  const found = new Int32Array(steps.length);
  let at = 0;
  for (let i = 0; i < steps.length; i++) found[i] = at += steps[i];
  return found;
}

/** Rows of several numbers: all of them in one array, and where each row begins. */
export class Ragged {
  constructor(rows) {
    let count = 0;
    for (const row of rows) count += typeof row === "number" ? 1 : row.length;
    this.start = new Int32Array(rows.length + 1);
    this.items = new Int32Array(count);
    let at = 0;
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i];
      if (typeof row === "number") this.items[at++] = row;
      else for (const item of row) this.items[at++] = item;
      this.start[i + 1] = at;
    }
  }

  get length() {
    return this.start.length - 1;
  }

  row(index) {
    return this.items.subarray(this.start[index], this.start[index + 1]);
  }

  /** Which rows hold an item, for items below `count`. */
  inverted(count) {
    const start = new Int32Array(count + 1);
    for (const item of this.items) start[item + 1]++;
    for (let i = 0; i < count; i++) start[i + 1] += start[i];
    const fill = start.slice(0, count);
    const items = new Int32Array(this.items.length);
    for (let row = 0; row < this.length; row++) {
      for (let i = this.start[row]; i < this.start[row + 1]; i++) items[fill[this.items[i]]++] = row;
    }
    const found = Object.create(Ragged.prototype);
    found.start = start;
    found.items = items;
    return found;
  }
}

export const DECLARES = /^et\.(get_)?weight$|^et\.(constant|state|read_state|buffer|inputs?|named_data|delegate|string|none)$/;

const NONE = new Int32Array(0);

/** One level, or the insides of the delegates of one backend. */
export class Level {
  constructor(data, origins) {
    this.name = data.name;
    this.kind = data.kind;
    this.lines = data.text.split("\n").map((line) => line.replace(/^((?: {2})+)/, (all) => " ".repeat(all.length / 2)));
    this.line = summed(data.line);
    this.op = data.op;
    this.ops = data.ops;
    this.origins = new Ragged(data.origins);
    this.operandSteps = data.operands;
    this.bytes = data.bytes;
    this.partition = data.partition || null;
    this.partitions = data.partitions || [""];
    this.symbols = data.symbols || {};
    this.isStructure = new Uint8Array(data.ops.length);
    for (const op of data.structure) this.isStructure[op] = 1;
    this.holders = this.origins.inverted(origins);
    this.rowOfLine = new Int32Array(this.lines.length).fill(-1);
    for (let row = this.line.length - 1; row >= 0; row--) this.rowOfLine[this.line[row]] = row;
    this.ms = null;
    this.wrong = null;
    this.instruction = null;
    // What a program does comes after its weights and buffers.
    const first = data.op.findIndex((op) => !this.isStructure[op] && !DECLARES.test(data.ops[op]));
    this.begin = first < 0 ? 0 : Math.max(this.line[first] - 1, 0);
  }

  structure(row) {
    return this.isStructure[this.op[row]] === 1;
  }

  opName(row) {
    return this.ops[this.op[row]];
  }

  /** The rows that hold one of the origins, each once, in order. */
  rowsOf(origins) {
    // Those of one origin are in order already; of an operation that was unrolled there are thousands.
    if (origins.length === 1) return Array.from(this.holders.row(origins[0])).filter((row) => !this.structure(row));
    const found = new Set();
    for (const origin of origins) {
      for (const row of this.holders.row(origin)) if (!this.structure(row)) found.add(row);
    }
    return [...found].sort((a, b) => a - b);
  }
}

export class Model {
  constructor(data) {
    this.data = data;
    this.title = data.title;
    const o = data.origins;
    this.count = o.op.length;
    this.origins = o;
    this.numbers = summed(o.number);
    this.levels = data.levels.map((level) => new Level(level, this.count));
    this.methods = Object.keys(data.instructions);
    this.linesOf = this.#linesOf();
    this.instructions = {};
    for (const method of this.methods) {
      const rows = data.instructions[method];
      const origins = new Ragged(rows.origins);
      const holders = origins.inverted(this.count);
      this.instructions[method] = { ...rows, origins, holders, ms: new Float64Array(rows.row.length) };
    }
    this.buffers = {};
    for (const [method, plan] of Object.entries(data.memory)) this.buffers[method] = new Ragged(plan.origins);
    this.et = data.levels.filter((level) => level.kind === "level").length - 1;
    this.originMs = new Float64Array(this.count);
    this.totalMs = 0;
    this.originError = new Map();
    this.#times();
    this.#errors();
  }

  /** The origins of each cited line: "file:line" to their numbers in the page. */
  #linesOf() {
    const found = new Map();
    for (let i = 0; i < this.count; i++) {
      if (this.origins.file[i] < 0) continue;
      const key = `${this.origins.file[i]}:${this.origins.line[i]}`;
      if (!found.has(key)) found.set(key, []);
      found.get(key).push(i);
    }
    return found;
  }

  where(origin) {
    const file = this.origins.file[origin];
    return file < 0 ? "" : `${this.data.files[file].name}:${this.origins.line[origin]}`;
  }

  path(origin) {
    return this.origins.paths[this.origins.path[origin]];
  }

  /** The origins of a buffer of a method. */
  memoryOrigins(method, index) {
    return this.buffers[method].row(index);
  }

  /** Times of rows: that of an instruction, or of a node of a delegate, divided among the rows with its origins. */
  #times() {
    this.parts = [];
    for (const method of this.methods) {
      const profile = this.data.profiles[method];
      const table = this.instructions[method];
      if (this.et >= 0) {
        const level = this.levels[this.et];
        level.instruction = level.instruction || new Int32Array(level.line.length).fill(-1);
        table.row.forEach((row, index) => {
          if (row >= 0) level.instruction[row] = index;
        });
        const first = table.row.find((row) => row >= 0);
        if (first !== undefined && method === this.data.method) level.begin = Math.max(level.line[first] - 1, 0);
      }
      if (!profile) continue;
      this.totalMs += profile.total;
      const inside = new Map();
      for (const [index, node, ms, label] of profile.nodes) {
        if (!inside.has(index)) inside.set(index, []);
        inside.get(index).push({ node, ms, label });
      }
      for (const [index, ms] of profile.instructions) {
        if (index < 0 || index >= table.row.length) continue;
        table.ms[index] = ms;
        const symbol = table.delegate[index];
        const level = symbol === null ? null : this.levels.find((l) => symbol in l.symbols);
        const all = inside.get(index) || [];
        const nodes = all.filter((n) => n.node >= 0);
        if (!level || !nodes.length) {
          const own = table.origins.row(index);
          // Of a delegate that nothing is known of there is what its runtime calls its operations.
          const named = all.length > 1 ? all : [{ ms }];
          for (const { ms: spent, label } of named) this.parts.push({ method, index, ms: spent, origins: own, level: null, row: -1, label });
          continue;
        }
        for (const { node, ms: spent } of nodes) {
          const row = level.symbols[symbol] + node;
          this.parts.push({ method, index, ms: spent, origins: level.origins.row(row), level, row });
        }
        for (const { node, ms: spent, label } of all) {
          if (node < 0) this.parts.push({ method, index, ms: spent, origins: NONE, level: null, row: -1, label });
        }
      }
    }
    if (!this.parts.length) return;
    const shared = this.#byOrigins();
    for (const [i, level] of this.levels.entries()) {
      level.ms = new Float64Array(level.line.length);
      if (level.kind === "delegate") {
        for (const part of this.parts) if (part.level === level) level.ms[part.row] += part.ms;
      } else if (i === this.et) {
        for (const part of this.parts) {
          const row = this.instructions[part.method].row[part.index];
          if (row >= 0 && part.row < 0) level.ms[row] += part.ms;
        }
      } else {
        for (const { origins, ms } of shared) {
          const rows = level.rowsOf(origins).filter((row) => !DECLARES.test(level.opName(row)));
          for (const row of rows) level.ms[row] += ms / rows.length;
        }
      }
      if (i === this.et) {
        for (const method of this.methods) {
          const table = this.instructions[method];
          table.row.forEach((row, index) => {
            if (row >= 0 && table.ms[index]) level.ms[row] = table.ms[index];
          });
        }
      }
    }
    for (const part of this.parts) {
      const known = [...part.origins].filter((origin) => this.origins.file[origin] >= 0);
      const among = known.length ? known : part.origins;
      for (const origin of among) this.originMs[origin] += part.ms / among.length;
    }
  }

  /**
   * The time of all parts with the same origins. An operation that was unrolled (an LSTM) has thousands of parts and of
   * rows: they are divided among each other once.
   */
  #byOrigins() {
    const found = new Map();
    for (const { origins, ms } of this.parts) {
      const key = origins.join();
      const known = found.get(key);
      if (known) known.ms += ms;
      else found.set(key, { origins, ms });
    }
    return [...found.values()];
  }

  #errors() {
    for (const [origin, level, error, wrong] of this.data.differences) {
      const known = this.originError.get(origin);
      if (!known || (wrong && !known.wrong) || (wrong === known.wrong && error > known.error)) {
        this.originError.set(origin, { level, error, wrong });
      }
    }
    if (!this.originError.size) return;
    for (const level of this.levels) {
      level.wrong = new Int8Array(level.line.length);
      for (const [origin, { wrong }] of this.originError) {
        for (const row of level.holders.row(origin)) {
          if (!level.structure(row)) level.wrong[row] = Math.max(level.wrong[row], wrong ? 2 : 1);
        }
      }
    }
  }
}
