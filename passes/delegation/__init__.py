"""What the passes of delegation share: the partition attribute, graphs of blocks, levels, the report, what-if.

The passes themselves are `partition`, `verify-partitions`, `outline-delegates`, `legalize-delegates`,
`lower-delegates` and `release-kept`, one file each in ``passes/``; what a backend declares is in ``backends/``.
"""
