"""Error ids of memory planning (E07xx)."""

from __future__ import annotations

from etir.diagnostics import define

E0701 = define(
    "E0701",
    "malformed buffer in a memory planning problem",
    "give every buffer a unique key, a size of at least 0 bytes, a power-of-two alignment, a pool id of at least 1 and "
    "lifetimes whose first instruction is not after their last",
)
E0702 = define(
    "E0702",
    "a buffer cannot alias another one as asked",
    "an alias must name another buffer of the same pool, lie fully inside it, start at a multiple of its own "
    "alignment, have no fixed offset of its own, and not lead back to itself",
)
E0703 = define(
    "E0703",
    "a fixed buffer offset cannot be kept",
    "choose a fixed offset that is not negative, is a multiple of the buffer's alignment and does not overlap another "
    "fixed buffer that is live at the same time, or leave the offset to the planner",
)
E0704 = define(
    "E0704",
    "a memory pool is over its capacity",
    "move some of the named buffers to another pool, make them smaller, or raise the capacity of the pool",
)
E0705 = define(
    "E0705", "unknown memory planning algorithm", "use one of the listed names; `auto` takes the best of all"
)
E0706 = define(
    "E0706",
    "malformed instruction list for liveness analysis",
    "every successor must be an instruction index or the end of the list, and every fully written buffer must be among "
    "the buffers that the instruction writes",
)
E0711 = define(
    "E0711",
    "the memory plan does not match its problem",
    "plan the memory again: a plan gives an offset to exactly the buffers of the problem and a size to every pool in "
    "use",
)
E0712 = define(
    "E0712",
    "a planned offset is misaligned",
    "plan the memory again, or correct the offset to a multiple of the buffer's alignment",
)
E0713 = define(
    "E0713",
    "a planned buffer lies outside its pool",
    "plan the memory again, or correct the offset or the size of the pool",
)
E0714 = define(
    "E0714",
    "two live buffers share memory",
    "plan the memory again; if sharing is meant, say so by making one buffer an alias of the other",
)
E0715 = define(
    "E0715",
    "a planned buffer is not where the problem asks for it",
    "plan the memory again: an alias sits at its base's offset plus its own displacement, a fixed buffer at its fixed "
    "offset",
)
