"""Natural loops of a kernel's basic blocks."""

from __future__ import annotations

from dataclasses import dataclass

from ptxsan.errors import MachineError
from ptxsan.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Blocks in reverse postorder; `loops` maps a loop's first block to all of its blocks."""

    order: tuple[int, ...]
    loops: dict[int, frozenset[int]]


def behind(program: Program, block: int, site: int) -> set[int]:
    """Return the sites that may run after a site of a block."""
    found = set(range(site + 1, program.blocks[block].end))
    waiting, seen = list(program.blocks[block].successors), set[int]()
    while waiting:
        number = waiting.pop()
        if number not in seen:
            seen.add(number)
            found.update(range(program.blocks[number].start, program.blocks[number].end))
            waiting += program.blocks[number].successors
    return found


def graph_of(program: Program) -> Graph:
    """Return the loops of a program. Raises MachineError for jumps into a loop's middle."""
    successors = [block.successors for block in program.blocks]
    seen: set[int] = {0}
    done: list[int] = []
    stack: list[tuple[int, int]] = [(0, 0)]
    while stack:
        block, at = stack.pop()
        if at < len(successors[block]):
            stack.append((block, at + 1))
            following = successors[block][at]
            if following not in seen:
                seen.add(following)
                stack.append((following, 0))
        else:
            done.append(block)
    order = done[::-1]
    place = {block: number for number, block in enumerate(order)}
    predecessors: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for following in successors[block]:
            predecessors[following].append(block)
    dominators = _dominators(order, place, predecessors)
    loops: dict[int, set[int]] = {}
    for block in order:
        for following in successors[block]:
            if place[following] > place[block]:
                continue
            if not _dominates(following, block, dominators):
                line = program.body[program.blocks[block].end - 1].line
                raise MachineError("control flow jumps into the middle of a loop", line=line)
            loop_body, waiting = {following}, [block]
            while waiting:
                reached = waiting.pop()
                if reached not in loop_body:
                    loop_body.add(reached)
                    waiting += predecessors[reached]
            loops.setdefault(following, {following}).update(loop_body)
    return Graph(order=tuple(order), loops={h: frozenset(body) for h, body in loops.items()})


def _dominators(
    order: list[int], place: dict[int, int], predecessors: dict[int, list[int]]
) -> dict[int, int]:
    """Return immediate dominators (Cooper, Harvey and Kennedy, "A Simple, Fast Algorithm")."""
    found: dict[int, int] = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [one for one in predecessors[block] if one in found]
            new = known[0]
            for other in known[1:]:
                while new != other:
                    while place[new] > place[other]:
                        new = found[new]
                    while place[other] > place[new]:
                        other = found[other]
            if found.get(block) != new:
                found[block] = new
                changed = True
    return found


def _dominates(above: int, below: int, dominators: dict[int, int]) -> bool:
    while below != above:
        up = dominators[below]
        if up == below:
            return False
        below = up
    return True
