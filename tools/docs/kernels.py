"""The reference of kernels: the manifest of every target."""

from __future__ import annotations

import inspect

from etir.tools.docs.text import markdown, table


def kernels_part() -> str:
    """The manifest of every target."""
    from etir.targets import dtypes, rules
    from etir.targets.manifest import available, load, range_text

    lines = [markdown(inspect.getdoc(rules) or ""), "", markdown(inspect.getdoc(dtypes) or "")]
    for target in available():
        manifest = load(target)
        lines += [
            "",
            f"## Target `{target}`: {manifest.name} {manifest.version}",
            "",
            f"{len(manifest.kernels)} kernels; backends {', '.join(manifest.backends)}; constants and planned memory "
            f"aligned to {manifest.tensor_alignment} bytes.",
            "",
        ]
        rows: list[tuple[str, ...]] = []
        for name, kernel in manifest.kernels.items():
            types = "<br>".join(
                ", ".join(f"{argument}: {constraint.text}" for argument, constraint in row.items())
                for row in kernel.dtypes.rows
            )
            words = kernel.dim_orders.words
            orders = words if isinstance(words, str) else ", ".join(f"{a}: {word}" for a, word in words.items())
            library = f"{kernel.library}{', optimized' if kernel.optimized else ''}"
            limits = [f"rank of {a} {range_text(limit)}" for a, limit in kernel.ranks.items()]
            limits += [f"items of {a} {range_text(limit)}" for a, limit in kernel.items.items()]
            rows.append((f"`{name}`", library, types, orders, "; ".join([*limits, *filter(None, [kernel.notes])])))
        lines += table(("kernel", "library", "scalar types", "dim orders", "limits and notes"), rows)
        wrong = [
            (f"`{name}`", "refused, or rewritten" if not case.values else "run", case.text)
            for name, kernel in manifest.kernels.items()
            for case in kernel.wrong
        ]
        if wrong:
            lines += ["", f"### Calls that {manifest.name} {manifest.version} gets wrong", ""]
            lines += table(("kernel", "such a call is", "what"), wrong)
    return "\n".join(lines) + "\n"
