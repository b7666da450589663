"""The product of 32 bits that leads an address astray, where an access lies far outside.

An access shows where a wrapped index arrives, often lines after the product that wrapped.
"""

from __future__ import annotations

from ptxsan import origins
from ptxsan.isa import Memory
from ptxsan.isa import row as row_of
from ptxsan.program import Program
from ptxsan.syntax import Immediate, Instruction

_NARROW = frozenset({"s32", "u32", "b32"})
_PRODUCTS = frozenset({"mul", "mad", "shl"})


def narrow_product(program: Program, line: int) -> Instruction | None:
    """Return the product of 32 bits nearest to the address of an access; None where none is.

    `line` is the access's line of the PTX. A product of two values of the kernel goes before one
    with a constant, such as the size of a block.
    """
    known = origins.of(program)
    start = next((site for site, one in enumerate(program.body) if one.line == line), None)
    if start is None:
        return None
    found: list[Instruction] = []
    reached, waiting = {start}, [start]
    while waiting:
        at = waiting.pop(0)
        one = program.body[at]
        if at != start and row_of(one).memory is not Memory.NONE:
            continue  # what was read was computed elsewhere
        wide = "wide" in one.parts
        if at != start and one.base in _PRODUCTS and _NARROW.intersection(one.parts) and not wide:
            found.append(one)
        for site in known.before(at):
            if site not in reached:
                reached.add(site)
                waiting.append(site)
    varied = (one for one in found if not any(isinstance(x, Immediate) for x in one.operands[1:3]))
    return next(varied, next(iter(found), None))
