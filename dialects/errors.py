"""Error ids of the dialects: text, types, weights and verification."""

from etir.diagnostics import define

E0101 = define(
    "E0101",
    "the text is not valid IR",
    "fix the text at the caret; `et-opt --print-op-generic` shows the generic form of any valid file",
)
E0102 = define(
    "E0102",
    "unknown operation",
    "check the spelling; ATen operations carry their overload (aten.relu.default), custom ones need an "
    "et.schema in the module",
)
E0201 = define(
    "E0201",
    "the bytes of a weight are not available",
    "pass the weights file that was written beside the text: --weights=FILE.safetensors",
)
E0202 = define(
    "E0202",
    "the bytes of a weight do not match its digest",
    "the weights file belongs to another version of the program: write text and weights again together; other bytes "
    "on purpose are given with --replace-weights=FILE",
)
E0203 = define(
    "E0203",
    "the weights file is not readable",
    "pass a complete safetensors file; it may have been truncated while copying",
)
E0204 = define(
    "E0204",
    "an array does not replace a weight",
    "name each array like the weight or state that it replaces, with the dtype and the shape in the text",
)
E0301 = define(
    "E0301",
    "an operation does not verify",
    "fix the operation at the location; `docs/` has a page for each dialect with its constraints",
)
E0302 = define(
    "E0302",
    "a value is used where its definition does not reach",
    "move the definition before the use, into a block that dominates it",
)
E0303 = define("E0303", "a symbol is not defined", "define it at the top of the module, or fix the name")
E0304 = define("E0304", "a symbol is defined twice", "rename one of the two definitions")
E0305 = define(
    "E0305",
    "a tensor type is not canonical",
    "write the layout as docs/reference/dialects/et.md describes, or leave it out when the tensor is static and "
    "contiguous",
)
E0306 = define("E0306", "a symbolic dim is not declared", "declare it at the top of the module: sym.dim @s0 in [1, 64]")
E0308 = define(
    "E0308",
    "a value is read before anything writes it",
    "let an instruction before it write the value, or read the one that is written",
)
E0309 = define(
    "E0309",
    "an instruction does not fit what it calls",
    "give the arguments that the kernel's schema names, in its order, and results of the sizes that it computes",
)
E0310 = define(
    "E0310",
    "a declared type does not follow from the operands",
    "correct the type after '->', or the operands",
)
E0307 = define(
    "E0307",
    "an operation has no source location",
    "passes keep locations when they use the rewrite driver; the importer writes one for every node",
)
E0311 = define(
    "E0311", "an operation has no origin", "this is a bug in the pass that made it: new operations take a location"
)
