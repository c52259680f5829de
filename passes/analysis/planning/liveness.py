"""Which instructions need the contents of which buffer.

A buffer is *live* at an instruction when some execution could have put something into it before or there, and could
still need that there or later: the buffer's bytes must not be given away at this instruction. The first half ("could
still need") is the textbook backward analysis: a read makes a buffer live before it, a write of the whole buffer ends
that, and at a branch everything is live that is live on any way out. A write that may leave bytes as they were (an
element of a list, a slice, a write on one path only) does not end it. The second half ("could have put") is its mirror
image forward: a buffer that no path has written yet holds nothing worth keeping. Without it a result that is filled
piece by piece inside a loop would count as live since the start of the program. (Aho, Lam, Sethi and Ullman,
"Compilers", section 9.2.)

Both are solved on basic blocks with sets as Python integers, one bit per buffer; loops need a few rounds. The intervals
are then built walking each block backward, as in Wimmer and Franz, "Linear Scan Register Allocation on SSA Form" (CGO
2010), which costs time proportional to the operands of the block; what is merely live across blocks is added in runs.

An instruction needs all its operands at once: what it reads and what it writes are live there, so they never share
memory. Inputs are written before instruction 0 and therefore all live at it; outputs are live wherever the program
ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.passes.analysis.planning.errors import E0706
from etir.passes.analysis.planning.problem import Interval, merge_intervals


@dataclass(frozen=True, slots=True)
class Instruction:
    """What one instruction does to buffers, which are named by integers of the caller's choice.

    ``full_writes`` are those of ``writes`` that it overwrites completely whenever it runs. ``successors`` are the
    indices of the instructions that can come next; the number of instructions stands for the end of the program, and no
    successors at all mean that the program ends here. ``None`` is the next instruction in the list.
    """

    reads: Sequence[int] = ()
    writes: Sequence[int] = ()
    full_writes: Sequence[int] = ()
    successors: Sequence[int] | None = None


@dataclass
class _Block:
    """Instructions ``first`` to ``last`` that always run one after the other.

    Sets of buffers, as bits: ``used`` is read before anything in the block overwrites it, ``killed`` is overwritten,
    ``written`` is written at least partly; ``live_in``, ``live_out`` and ``defined_in`` are the results.
    """

    first: int
    last: int
    successors: list[int]
    exits: bool
    used: int = 0
    killed: int = 0
    written: int = 0
    live_in: int = 0
    live_out: int = 0
    defined_in: int = 0

    @property
    def across(self) -> int:
        """Buffers that are live all through the block without being mentioned in it."""
        return self.live_out & self.defined_in & ~(self.used | self.written)


def live_intervals(
    instructions: Sequence[Instruction],
    *,
    inputs: Iterable[int] = (),
    outputs: Iterable[int] = (),
    persistent: Iterable[int] = (),
) -> dict[int, tuple[Interval, ...]]:
    """The lifetime of every buffer that is mentioned, by ascending buffer number.

    Lifetimes are sorted, disjoint, inclusive intervals of instruction indices. ``inputs`` hold something before the
    first instruction, ``outputs`` are looked at when the program ends, and ``persistent`` buffers keep their contents
    between runs and are live throughout. A program without instructions counts as having one that does nothing.

    Raises ``EtirError`` (E0706) when a successor does not exist or ``full_writes`` holds something not in ``writes``.
    """
    found = live_stretches(instructions, inputs=inputs, outputs=outputs, persistent=persistent)
    return {buffer: merge_intervals(intervals) for buffer, intervals in found.items()}


def live_stretches(
    instructions: Sequence[Instruction],
    *,
    inputs: Iterable[int] = (),
    outputs: Iterable[int] = (),
    persistent: Iterable[int] = (),
) -> dict[int, tuple[Interval, ...]]:
    """As :func:`live_intervals`, where an interval ends right before another one if a buffer is overwritten there and
    nothing of what it held is needed: the text of one branch ends where that of the next begins, and what both write is
    not handed from the one to the other.
    """
    raise_if_errors(_malformed(instructions))
    program = list(instructions) or [Instruction()]
    inputs, outputs, persistent = list(inputs), list(outputs), list(persistent)
    mentioned = {b: None for i in program for b in (*i.reads, *i.writes)}
    buffers = list(mentioned | dict.fromkeys([*inputs, *outputs, *persistent]))
    bit = {buffer: number for number, buffer in enumerate(buffers)}

    blocks = _basic_blocks(program)
    for block in blocks:
        _summarize(block, program, bit)
    _solve_backward(blocks, _bits(outputs, bit))
    _solve_forward(blocks, _bits(inputs, bit))

    intervals: dict[int, list[Interval]] = {buffer: [] for buffer in sorted(buffers)}
    begins: dict[int, list[int]] = {buffer: [] for buffer in buffers}
    for block in blocks:
        _collect(block, program, buffers, intervals, begins)
    _collect_across(blocks, buffers, intervals)
    for buffer in inputs:
        intervals[buffer].append((0, 0))
    for buffer in outputs:
        intervals[buffer] += [(block.last, block.last) for block in blocks if block.exits]
    for buffer in persistent:
        intervals[buffer].append((0, len(program) - 1))
        begins[buffer].clear()
    return {buffer: _split(merge_intervals(found), begins[buffer]) for buffer, found in intervals.items()}


def _split(intervals: Sequence[Interval], begins: Sequence[int]) -> tuple[Interval, ...]:
    """Intervals in parts, each of which but the first starts with one of ``begins``."""
    found: list[Interval] = []
    for first, last in intervals:
        starts = [first, *sorted(begin for begin in begins if first < begin <= last)]
        found += zip(starts, [*(start - 1 for start in starts[1:]), last], strict=True)
    return tuple(found)


def _malformed(instructions: Sequence[Instruction]) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    for index, instruction in enumerate(instructions):
        for successor in instruction.successors or ():
            if not 0 <= successor <= len(instructions):
                found.append(
                    E0706.diagnostic(
                        f"instruction {index} continues at {successor}, but there are {len(instructions)} instructions"
                    )
                )
        for buffer in instruction.full_writes:
            if buffer not in instruction.writes:
                found.append(
                    E0706.diagnostic(
                        f"instruction {index} is said to fully write buffer {buffer}, which is not among its writes"
                    )
                )
    return found


def _bits(buffers: Iterable[int], bit: dict[int, int]) -> int:
    octets = bytearray(len(bit) // 8 + 1)
    for buffer in buffers:
        octets[bit[buffer] >> 3] |= 1 << (bit[buffer] & 7)
    return int.from_bytes(octets, "little")


def _members(bits: int, buffers: Sequence[int]) -> list[int]:
    """The buffers whose bits are set, lowest bit first."""
    found: list[int] = []
    octets = bits.to_bytes(bits.bit_length() // 8 + 1, "little")
    for word in range(0, bits.bit_length(), 64):
        part = int.from_bytes(octets[word // 8 : word // 8 + 8], "little")
        while part:
            lowest = part & -part
            found.append(buffers[word + lowest.bit_length() - 1])
            part ^= lowest
    return found


def _basic_blocks(program: Sequence[Instruction]) -> list[_Block]:
    end = len(program)
    leaders = {0: None}
    for index, instruction in enumerate(program):
        if instruction.successors is not None:
            leaders |= dict.fromkeys([*instruction.successors, index + 1])
    starts = sorted(leader for leader in leaders if leader < end)
    number = {start: block for block, start in enumerate(starts)}
    blocks: list[_Block] = []
    for first, after in zip(starts, [*starts[1:], end], strict=True):
        successors = program[after - 1].successors
        targets = [after] if successors is None else list(dict.fromkeys(successors))
        inside = [number[target] for target in targets if target < end]
        blocks.append(_Block(first, after - 1, inside, exits=not targets or end in targets))
    return blocks


def _summarize(block: _Block, program: Sequence[Instruction], bit: dict[int, int]) -> None:
    killed: dict[int, None] = {}
    used: dict[int, None] = {}
    written: dict[int, None] = {}
    for instruction in program[block.first : block.last + 1]:
        used |= {buffer: None for buffer in instruction.reads if buffer not in killed}
        killed |= dict.fromkeys(instruction.full_writes)
        written |= dict.fromkeys(instruction.writes)
    block.used, block.killed, block.written = _bits(used, bit), _bits(killed, bit), _bits(written, bit)


def _solve_backward(blocks: list[_Block], at_exit: int) -> None:
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            live_out = at_exit if block.exits else 0
            for successor in block.successors:
                live_out |= blocks[successor].live_in
            live_in = block.used | (live_out & ~block.killed)
            changed |= live_in != block.live_in
            block.live_in, block.live_out = live_in, live_out


def _solve_forward(blocks: list[_Block], at_entry: int) -> None:
    blocks[0].defined_in = at_entry
    changed = True
    while changed:
        changed = False
        for block in blocks:
            defined_out = block.defined_in | block.written
            for successor in block.successors:
                target = blocks[successor]
                defined = target.defined_in | defined_out
                changed |= defined != target.defined_in
                target.defined_in = defined


def _collect(
    block: _Block,
    program: Sequence[Instruction],
    buffers: Sequence[int],
    intervals: dict[int, list[Interval]],
    begins: dict[int, list[int]],
) -> None:
    """Append to ``intervals`` what is live inside ``block`` and mentioned there, walking it backward, and to ``begins``
    the instructions that overwrite a buffer of which nothing is needed any more.

    ``until`` maps each buffer that is live at the current point to the last instruction of that stretch, ``since`` to
    the earliest write seen in it.
    """
    filled = block.defined_in | block.written
    defined = dict.fromkeys(_members(block.defined_in, buffers))
    until = dict.fromkeys(_members(block.live_out & filled & ~block.across, buffers), block.last)
    since: dict[int, int] = {}
    for index in range(block.last, block.first - 1, -1):
        instruction = program[index]
        for buffer in instruction.writes:
            if buffer in until:
                since[buffer] = index
            else:
                # Nobody needs what is written, but the instruction still writes it.
                intervals[buffer].append((index, index))
        for buffer in instruction.full_writes:
            if buffer in until:
                intervals[buffer].append((index, until.pop(buffer)))
                del since[buffer]
                if buffer not in instruction.reads:
                    begins[buffer].append(index)
        for buffer in instruction.reads:
            until.setdefault(buffer, index)
            if buffer not in defined:
                # Perhaps nothing was written yet; the instruction still reads it.
                intervals[buffer].append((index, index))
    for buffer, last in until.items():
        if buffer in defined:
            intervals[buffer].append((block.first, last))
        elif buffer in since:
            intervals[buffer].append((since[buffer], last))


def _collect_across(blocks: list[_Block], buffers: Sequence[int], intervals: dict[int, list[Interval]]) -> None:
    """Append to ``intervals`` what is live across whole blocks, one interval for a run of neighboring blocks."""
    since: dict[int, int] = {}
    before = 0
    for block in blocks:
        across = block.across
        for buffer in _members(before & ~across, buffers):
            intervals[buffer].append((since.pop(buffer), block.first - 1))
        since |= dict.fromkeys(_members(across & ~before, buffers), block.first)
        before = across
    for buffer, first in since.items():
        intervals[buffer].append((first, blocks[-1].last))
