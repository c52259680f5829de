"""What the two file formats share: element types, shapes, data and its segments, small checks of names and numbers.

Plain data and functions; nothing here knows the IR or which of the formats asks.
"""
