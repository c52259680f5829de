"""The reference of operators: every functional overload of the schema table."""

from __future__ import annotations

from etir.tools.docs.text import table as table_lines


def operators_part() -> str:
    """Every functional overload of the schema table: its out variant, decomposition and kernel."""
    from etir.dialects.aten.table import load_table, out_variant
    from etir.dialects.schema import SchemaKind
    from etir.targets.manifest import load

    table = load_table()
    manifest = load("executorch")
    decompositions = _decompositions()
    rows: list[tuple[str, ...]] = []
    for name in sorted(table):
        schema = table.get(name)
        if schema is None or schema.kind is not SchemaKind.FUNCTIONAL:
            continue
        out = out_variant(name)
        kernel = None if out is None else manifest.lookup(out.qualified_name)
        rows.append(
            (
                f"`{name}`",
                _flag_words(table.flags(name), schema.is_view),
                "" if out is None else f"`{out.overload}`",
                decompositions.get(name, ""),
                "" if kernel is None else f"{kernel.library}{', optimized' if kernel.optimized else ''}",
            )
        )
    lines = [
        f"The {len(rows)} functional overloads of the schema table ({len(table)} with in-place and out forms), from",
        "`dialects/aten/schemas.txt` and `dialects/edge/schemas.txt`.",
        "",
        "* *kind*: core ATen, a view, random, pointwise, composite (torch always decomposes it).",
        "* *out*: the overload that writes into a given buffer, which `to-out-variant` calls.",
        "* *decomposition*: the named pattern of `decompose-aten`, which `only=` and `--explain-match` take, or",
        "  *traced*: torch's own decomposition, traced on the operand types.",
        f"* *kernel*: the library of {manifest.name} {manifest.version} that has the out variant.",
        "",
        *table_lines(("operator", "kind", "out", "decomposition", "kernel"), rows),
    ]
    return "\n".join(lines) + "\n"


_FLAG_WORDS = (("c", "core"), ("r", "random"), ("p", "pointwise"), ("i", "composite"), ("v", "copy of a view"))


def _flag_words(flags: str, is_view: bool) -> str:
    return ", ".join([word for flag, word in _FLAG_WORDS if flag in flags] + ["view"] * is_view)


def _decompositions() -> dict[str, str]:
    """How each overload is decomposed: the patterns' names, or that torch's decomposition is traced."""
    import torch

    from etir.dialects.aten.table import load_table
    from etir.lowering.decompose_aten.driver import hand_written

    found = {name: "traced" for name in load_table().by_flag("i")}
    for overload in torch.export.default_decompositions():
        # Libraries that happen to be imported add operators of their own, which the page leaves out.
        if str(overload).startswith("aten."):
            found[str(overload)] = "traced"
    by_root: dict[str, list[str]] = {}
    for pattern in hand_written():
        for root in pattern.roots:
            by_root.setdefault(root, []).append(f"`{pattern.name}`")
    return found | {root: ", ".join(names) for root, names in by_root.items()}
