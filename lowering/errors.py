"""Error ids of import and of the steps between levels."""

from etir.diagnostics import define

E0401 = define(
    "E0401",
    "torch is not installed",
    "install it with `pip install 'etir[torch]'`; reading text and .pte files does not need it",
)
E0402 = define(
    "E0402",
    "the program is not an exported program",
    "pass what torch.export.export(model, args) returns, or a dict of them by method name",
)
E0403 = define(
    "E0403",
    "an input or output kind cannot be imported",
    "return tensors, numbers, strings or None, nested in tuples, lists and dicts",
)
E0404 = define(
    "E0404",
    "a weight cannot be imported",
    "use dense CPU tensors: model.cpu(), tensor.to_dense(); for a tensor subclass that operators take whole, call "
    "program.run_decompositions({}) first",
)
E0406 = define(
    "E0406",
    "the .pt2 file cannot be read",
    "write it with torch.export.save(program, path) under the torch version that reads it",
)
E0407 = define(
    "E0407",
    "something cannot be exported to torch",
    "export at a level above it (ATen, core, edge), or rewrite what the message names",
)
E0408 = define(
    "E0408",
    "there is no method to export",
    "name a method that the module has (--method); the executable level has no way back to torch",
)
E0410 = define(
    "E0410",
    "operators cannot be lowered",
    "decompose them, register an out variant, or delegate them; the table says what fits each one",
)
E0411 = define(
    "E0411",
    "an operator has no decomposition without torch",
    "install torch (`pip install 'etir[torch]'`), or decompose the program before it is written as text",
)
E0412 = define(
    "E0412",
    "a tracing decomposition failed",
    "keep the operator (keep=...) if the target has a kernel, or decompose it before export",
)
E0413 = define(
    "E0413",
    "an in-place operation cannot be made functional",
    "write it without overlapping views, or clone the tensor before changing it",
)
E0414 = define(
    "E0414",
    "an operator breaks the rules of the edge level",
    "docs/reference/dialects/edge.md numbers the rules; insert the cast or the copy that the message names",
)
E0415 = define(
    "E0415",
    "an operator has no out variant",
    "register an out variant with the same signature: mylib::op.out(..., *, Tensor(a!) out) -> Tensor(a!)",
)
E0416 = define(
    "E0416",
    "a dynamic dim has no upper bound",
    'give it one when exporting: torch.export.Dim("name", max=...), or torch._check(size <= ...) for a size from data; '
    'on target etir it may be allocated at run time instead: unbounded="allocate", or --unbounded=allocate',
)
E0417 = define(
    "E0417",
    "an operation cannot be expressed at the executable level",
    "docs/reference/dialects/et.md lists what the runtime can do",
)
E0418 = define(
    "E0418",
    "what is read of a tensor's storage is not known",
    "write it with views (slice, unfold, permute), or clone() the tensor first: a clone is all of its storage",
)
E0419 = define(
    "E0419",
    "a tensor's dims, or the upper bounds of them, are too large to plan",
    'give smaller bounds when exporting (torch.export.Dim("name", max=...)), or on target etir let it be allocated at '
    'run time: unbounded="allocate", or --unbounded=allocate',
)
