"""The passes of delegation and what they share: the partition attribute, graphs of blocks, levels, report, what-if.

The passes are `partition`, `verify-partitions`, `outline-delegates`, `legalize-delegates`, `lower-delegates`,
`disassemble-delegates`, `lift-delegates` and `decompose-preserved`, one file each; what a backend declares is in
``backends/api/``.
"""
