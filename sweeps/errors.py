"""Ids of what can go wrong with a sweep: of its plan, of one of its cells, of where it runs."""

from __future__ import annotations

from etir.diagnostics import define

E1901 = define(
    "E1901",
    "the plan cannot be read",
    "a plan is TOML, or a Python mapping of the same form; `docs/guide/sweeps.md` shows one",
)
E1902 = define(
    "E1902",
    "the plan names something that is not there",
    "correct the name; all that are wrong are listed",
)
E1903 = define(
    "E1903",
    "a value of the plan has no sense",
    "`docs/guide/sweeps.md` lists what each entry of a plan takes",
)
E1904 = define(
    "E1904",
    "a program or its data cannot be made",
    "a factory returns etir.sweeps.Model, (module, inputs) or an ExportedProgram; call it by itself to see",
)
E1905 = define(
    "E1905",
    "the file of results cannot be read",
    "name a file that et-sweep wrote with this version of etir",
)
E1906 = define(
    "E1906",
    "results or artefacts cannot be written",
    "make room, or name another place with -o and --store; rows that are there already stay, and are not made again",
)
E1907 = define(
    "E1907",
    "the Ray cluster cannot be used",
    "pip install 'etir[ray]'; start a cluster with `ray start --head`, and give its address to --ray",
)
E1908 = define(
    "E1908",
    "the process of a cell ended before the cell did",
    "run this cell alone in this process to see it: et-sweep PLAN --only CELL --jobs 0",
)
E1909 = define(
    "E1909",
    "a cell took longer than it may",
    "raise `seconds` in the plan's [limits], or leave the cell out ([[exclude]])",
)
E1910 = define(
    "E1910",
    "a cell needed more memory than it may have",
    "raise `memory` in the plan's [limits], or leave the cell out ([[exclude]])",
)
E1911 = define(
    "E1911",
    "the worker of a cell was lost again and again",
    "look at the cluster's nodes; `et-sweep PLAN --retry` runs such cells once more",
)
E1912 = define(
    "E1912",
    "a function of the plan failed",
    "call it by itself to see what it does",
)
E1913 = define(
    "E1913",
    "a program does not run",
    "`et-run` runs a file by itself, `et-compare` says which instruction is wrong first",
)
