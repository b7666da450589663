"""Executes a kernel once for every thread, block and size: paths as formulas, loops by invariants.

Where paths meet they become one, exactly. A loop is entered once with a counter K of iterations
before: registers that each iteration changes by the same amount are base + K * step, all others
are anything; what is claimed of K beyond that is guessed from the loop's comparisons and kept only
if it holds before the loop and is kept by an iteration (Houdini). So what is found of the body
holds for every iteration.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ptxsan import isa
from ptxsan.dataflow import Liveness, definitions, target_of, uses
from ptxsan.isa import Ends, Memory
from ptxsan.program import Program
from ptxsan.prove import accesses
from ptxsan.prove.accesses import Access
from ptxsan.prove.graph import Graph, graph_of
from ptxsan.prove.machine import Allocation, Thread
from ptxsan.prove.solver import Solver
from ptxsan.prove.state import Numbers, Path, State, Value, chosen, extended, merged
from ptxsan.prove.terms import (
    FALSE,
    TRUE,
    Atom,
    Eq,
    Formula,
    Le,
    Ne,
    Poly,
    Quotient,
    Symbol,
    atoms_of,
    decided,
    disjunction,
    literals,
    negated,
    of,
    replaced,
)
from ptxsan.prove.transfer import Step, raw_comparison, transfer_of
from ptxsan.syntax import Address, Instruction, Register, Vector

_MOST_STEPS = 60_000
_ROUNDS = 8
_MOST_CARRIED = 8
_UNROLLED = 8  # iterations of a loop that walks a table of the thread's own
_CARRIED = {f"{kind}{width}": width for kind in "bsu" for width in (32, 64)}
Edge = tuple[int, Path, State]


class GivenUpError(Exception):
    """The kernel is not followed to its end; the message says why, with the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A place where threads part: `guard` says which of them jump, or leave."""

    site: int
    path: Path
    guard: Formula


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What a register may hold where an iteration begins: `first`, then what the others leave.

    `after` are (path, value) where an iteration ends; numbers modulo 2^width.
    """

    header: int
    first: Poly
    width: int
    after: tuple[tuple[Path, Poly | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """How iterations of a loop end, in terms of `counter`: the number of those before.

    `entry` is the path on which the loop is met. A thread begins another iteration if and only if
    all of one of `again` holds. Where `leaves`, one that ends its last iteration is on one of
    `out`; else it may end its run in the loop.
    """

    counter: Atom
    entry: Path
    again: tuple[Path, ...]
    out: tuple[Path, ...]
    leaves: bool


@dataclass(slots=True)
class Execution:
    """One kernel, followed for all threads. `accesses` are what has to be shown.

    `branches` are those that the path does not decide. `counters` are the numbers of iterations
    with the header of their loop, `carried` the unknowns of registers that a loop changes, `loads`
    those that one load from one place gave, `cycles` are the loops by their headers.
    """

    thread: Thread
    program: Program
    solver: Solver
    until: float = float("inf")
    accesses: list[Access] = field(default_factory=list)
    gaps: dict[int, str] = field(default_factory=dict)  # line -> what is not followed there
    branches: list[Branch] = field(default_factory=list)
    counters: dict[Atom, int] = field(default_factory=dict)
    carried: dict[Atom, Carried] = field(default_factory=dict)
    loads: dict[Atom, tuple[Allocation, Poly]] = field(default_factory=dict)
    cycles: dict[int, Cycle] = field(default_factory=dict)
    steps: int = 0
    _numbers: Numbers = field(init=False)
    _live: Liveness = field(init=False)
    _graph: Graph = field(init=False)
    _compared: dict[int, list[Formula]] = field(default_factory=lambda: defaultdict(list))
    _leaves: dict[int, frozenset[str]] = field(default_factory=dict)
    _symbols: dict[tuple[int, str], Atom] = field(default_factory=dict)
    _inside: list[int] = field(default_factory=list)  # headers of the loops being followed
    _quiet: int = 0

    def __post_init__(self) -> None:
        self._numbers = Numbers(self.thread.atoms, self.solver)
        self._live = Liveness(self.program.body, self.program.blocks)
        self._graph = graph_of(self.program)

    def run(self) -> None:
        """Follow the kernel. Raises GivenUpError."""
        blocks = frozenset(self._graph.order)
        # Bounds of products are kept though intervals know them: solvers ask for them.
        start: Path = tuple(
            fact
            for fact in self.thread.facts
            if fact in self.thread.axes.facts or decided(fact) != TRUE
        )
        if any(decided(fact) == FALSE for fact in start):
            return  # no thread runs at any size
        self._region(0, blocks, start, State())

    # ---- regions of blocks

    def _region(
        self, entry: int, blocks: frozenset[int], path: Path, state: State
    ) -> tuple[list[Edge], list[Edge]]:
        """Follow blocks from an entry; return (jumps back to the entry, jumps out)."""
        waiting: dict[int, list[tuple[Path, State]]] = defaultdict(list)
        waiting[entry].append((path, state))
        back: list[Edge] = []
        out: list[Edge] = []
        for block in self._graph.order:
            if block not in blocks or block not in waiting:
                continue
            arriving = waiting.pop(block)
            live = {*self._live.before(self.program.blocks[block].start), *arriving[0][1].words}
            here, held = merged(arriving, live, self.thread.atoms)
            if block in self._graph.loops and not self._inside_of(block):
                edges = self._loop(block, here, held)
            else:
                edges = self._block(block, here, held)
            for target, p, s in edges:
                if target == entry and self._inside_of(entry):
                    back.append((target, p, s))
                elif target in blocks:
                    waiting[target].append((p, s))
                else:
                    out.append((target, p, s))
        return back, out

    def _inside_of(self, header: int) -> bool:
        return bool(self._inside) and self._inside[-1] == header

    def _block(self, number: int, path: Path, state: State) -> list[Edge]:
        block = self.program.blocks[number]
        starts = {one.start: n for n, one in enumerate(self.program.blocks)}
        state = state.copy()
        for site in range(block.start, block.end):
            one = self.program.body[site]
            self.steps += 1
            if self.steps > _MOST_STEPS or time.perf_counter() > self.until:
                raise GivenUpError(f"line {one.line}: the time for this kernel is over")
            ends = isa.row(one).ends
            if ends is Ends.NO:
                path = self._instruction(site, path, state)
                continue
            guard = self._guard(one, path, state)
            if guard not in (TRUE, FALSE) and not self._quiet:
                self.branches.append(Branch(site=site, path=path, guard=guard))
            edges: list[Edge] = []
            if ends is Ends.JUMP:
                target = target_of(one, self.program.labels)
                taken = extended(path, guard)
                if taken is not None and target in starts:
                    edges.append((starts[target], taken, state.copy()))
            if ends in (Ends.RETURN, Ends.EXIT, Ends.JUMP):
                stays = extended(path, negated(guard)) if one.predicate is not None else None
                if stays is not None and block.end in starts:
                    edges.append((starts[block.end], stays, state))
            return edges
        return [(starts[block.end], path, state)] if block.end in starts else []

    def _guard(self, one: Instruction, path: Path, state: State) -> Formula:
        """Return when an instruction runs; TRUE or FALSE where the path decides it."""
        if one.predicate is None:
            return TRUE
        step = self._step(one, path, state)
        found = decided(step.formula(one.predicate))
        if found in (TRUE, FALSE) or self._quiet:
            return found
        if self._numbers.holds(path, found):
            return TRUE
        return FALSE if self._numbers.holds(path, negated(found)) else found

    def _step(self, one: Instruction, path: Path, state: State) -> Step:
        self._numbers.quiet = bool(self._quiet)
        return Step(self.thread, self._numbers, state, path, one, self.program.registers)

    # ---- instructions

    def _instruction(self, site: int, path: Path, state: State) -> Path:
        """Change the state as an instruction does, and note what it touches."""
        one = self.program.body[site]
        row = isa.row(one)
        guard = self._guard(one, path, state)
        if guard == FALSE:
            return path
        inside = path if guard == TRUE else (*path, guard)
        step = self._step(one, inside, state)
        written = definitions(one)
        if row.memory is not Memory.NONE and row.memory is not Memory.HINT:
            values = self._touch(step, site)
        elif row.objects or row.discards or isa.is_call(one):
            self._gap(one, f"'{one.opcode}' is not followed")
            values = None
        else:
            transfer = transfer_of(one)
            values = self._plain(step, transfer(step) if transfer is not None else None)
            raw = raw_comparison(step)
            if raw is not None:
                for header in self._inside:
                    if not self._leaving(header).isdisjoint(written):
                        self._compared[header].append(raw)
        for name in written:
            new = values.get(name) if values is not None else None
            if guard != TRUE and new is not None:
                old = state.registers.get(name)
                new = None if old is None else chosen(self.thread.atoms, guard, new, old)
            if new is None:
                state.registers.pop(name, None)
            else:
                state.registers[name] = new
        learnt = step.learnt if guard == TRUE else ()
        return (*path, *(fact for fact in learnt if decided(fact) != TRUE and fact not in path))

    def _plain(self, step: Step, value: Value | None) -> dict[str, Value] | None:
        """Return the values of registers that an instruction without memory writes."""
        if not step.one.operands:
            return None
        target = step.one.operands[0]
        if isinstance(target, Register):
            return None if value is None else {target.name: value}
        if isinstance(target, Vector) and len(target.items) == 2:
            moves = isa.row(step.one).copies and len(step.one.operands) == 2
            if not moves or step.one.parts[-1] != "b64":
                return None
            low, high = target.items
            if not isinstance(low, Register) or not isinstance(high, Register):
                return None
            whole = step.number(step.one.operands[1], "u64")
            return {low.name: whole, high.name: self.thread.atoms.quotient(whole, of(1 << 32))}
        return None

    def _touch(self, step: Step, site: int) -> dict[str, Value] | None:
        """Note the accesses of an instruction; return what it loads."""
        if isa.parameter(step.one) is not None:
            if not self._quiet:
                self.accesses += [replace(one, site=site) for one in accesses.of_parameter(step)]
            return accesses.loaded_parameter(step)
        found = accesses.of_instruction(step)
        if isinstance(found, str):
            self._gap(step.one, found)
            return None
        if not self._quiet:
            self.accesses += [replace(one, site=site) for one in found]
        accesses.remember(step, found)
        values = accesses.recalled(step, found)
        if values is not None:
            return values
        values = accesses.loaded(step, found)
        if values is not None and len(found) == 1 and found[0].allocation is not None:
            width = found[0].nbytes // len(values)
            for number, value in enumerate(values.values()):
                if isinstance(value, Poly) and len(value.atoms) == 1:
                    place = found[0].allocation, found[0].offset + number * width
                    self.loads[next(iter(value.atoms))] = place
        return values

    def _gap(self, one: Instruction, why: str) -> None:
        if not self._quiet:
            self.gaps.setdefault(one.line, why)

    # ---- loops

    def _loop(self, header: int, path: Path, state: State) -> list[Edge]:
        """Follow a loop for any number of iterations; return the jumps out of it."""
        blocks = self._graph.loops[header]
        first = self.program.blocks[header].start
        changed = {name for one in self._body(blocks) for name in definitions(one)}
        live = {*self._live.before(first), *state.words}
        unrolled = self._unrolled(header, blocks, changed, path, state)
        if unrolled is not None:
            return unrolled
        if any(map(_stores_own, self._body(blocks))):
            changed |= state.words
        loop = self._discovered(header, blocks, path, state, changed & live)
        guesses, stepping = list(loop.guesses), dict(loop.steps)
        counter = self._symbol(header, f"iteration of line {self.program.body[first].line}", 0)
        self.counters[counter] = header
        held: dict[str, tuple[Atom, Carried]] = {}
        for name in sorted((changed & live) - stepping.keys()):
            base = state.registers.get(name)
            type_ = self.program.registers.get(name, "")
            if not isinstance(base, Poly) or type_ not in _CARRIED or len(held) >= _MOST_CARRIED:
                continue
            half = 1 << (_CARRIED[type_] - 1)
            if not base.within(-half, half - 1):
                continue
            atom = self._symbol(header, f"{name} in the loop", -half, half - 1, data=True)
            held[name] = atom, Carried(header=header, first=base, width=_CARRIED[type_])
        guesses += [guess for atom, one in held.values() for guess in _bounds_of(atom, one.first)]
        beginning = {atom: one.first for atom, one in held.values()}
        for _ in range(_ROUNDS):
            candidates = [guess.at({}, counter) for guess in guesses]
            kept = [
                guess for guess in guesses if self._numbers.holds(path, guess.at(beginning, of(0)))
            ]
            if len(kept) < len(guesses):
                guesses = kept
                continue
            noted, parted, gaps = len(self.accesses), len(self.branches), dict(self.gaps)
            start = self._at(counter, state, changed, stepping)
            start.registers |= {name: of(atom) for name, (atom, _) in held.items()}
            facts = tuple(fact for fact in candidates if decided(fact) != TRUE)
            back, out = self._follow(header, blocks, (*path, *facts), start)
            wrong = self._wrong_steps(back, state, counter, stepping)
            kept = self._keeping(guesses, counter, held, back)
            if not wrong and len(kept) == len(guesses):
                for name, (atom, one) in held.items():
                    ends = ((p, s.registers.get(name)) for _, p, s in back)
                    after = tuple((p, v if isinstance(v, Poly) else None) for p, v in ends)
                    self.carried[atom] = replace(one, after=after)
                self.cycles[header] = Cycle(
                    counter=counter,
                    entry=path,
                    again=tuple(p[len(path) + len(facts) :] for _, p, _ in back),
                    out=tuple(p[len(path) :] for _, p, _ in out),
                    leaves=not any(map(self._may_end, blocks)),
                )
                return out
            del self.accesses[noted:], self.branches[parted:]
            self.gaps = gaps
            stepping = {name: step for name, step in stepping.items() if name not in wrong}
            guesses = kept
        line = self.program.body[first].line
        raise GivenUpError(f"line {line}: no invariant of the loop was found")

    def _body(self, blocks: Iterable[int]) -> list[Instruction]:
        parts = (self.program.blocks[block] for block in blocks)
        return [one for part in parts for one in self.program.body[part.start : part.end]]

    def _unrolled(
        self, header: int, blocks: frozenset[int], changed: set[str], path: Path, state: State
    ) -> list[Edge] | None:
        """Follow a loop that walks a table of the thread's own, such as an array among the
        parameters, iteration by iteration; return the jumps out of it.

        None: it is no such loop, or it may go on after a few iterations.
        """
        body = self._body(blocks)
        walked = {
            place.base.name
            for one in body
            if isa.row(one).memory is Memory.READ
            for place in one.operands
            if isinstance(place, Address) and isinstance(place.base, Register)
        } & changed
        tables = (
            self.thread.allocation_of(address)
            for address in map(state.registers.get, walked)
            if isinstance(address, Poly)
        )
        own = any(one is not None and one.space in ("local", "param") for one in tables)
        orders = any(isa.row(one).orders is not isa.Orders.NOTHING for one in body)
        if self._quiet or orders or not own:
            return None
        noted, parted, gaps = len(self.accesses), len(self.branches), dict(self.gaps)
        first = self.program.blocks[header].start
        found: list[Edge] = []
        for _ in range(_UNROLLED):
            back, out = self._follow(header, blocks, path, state)
            found += out
            back = [edge for edge in back if not self.solver.implies(edge[1], FALSE, quick=True)]
            if not back:
                return found
            live = {*self._live.before(first), *back[0][2].words}
            path, state = merged([(p, s) for _, p, s in back], live, self.thread.atoms)
        del self.accesses[noted:], self.branches[parted:]
        self.gaps = gaps
        return None

    def _may_end(self, block: int) -> bool:
        """Whether a thread may end its run at the end of a block."""
        one = self.program.blocks[block]
        ends = isa.row(self.program.body[one.end - 1]).ends
        return ends in (Ends.RETURN, Ends.EXIT) or not one.successors

    def _symbol(
        self, header: int, name: str, low: int, high: int | None = None, *, data: bool = False
    ) -> Atom:
        """Return an unknown of a loop: the same one each time that it is followed for good.

        What an earlier time found with it is dropped, but answers of the solver are kept.
        """
        if self._quiet:  # what varies is told by its being new
            return self.thread.atoms.symbol(name, low, high, data=data)
        key = header, name
        if key not in self._symbols:
            self._symbols[key] = self.thread.atoms.symbol(name, low, high, data=data)
        return self._symbols[key]

    def _leaving(self, header: int) -> frozenset[str]:
        """Return the predicates that decide whether a loop is left, or what they are made of."""
        if header not in self._leaves:
            blocks = self._graph.loops[header]
            body = self._body(blocks)
            found = {
                one.predicate.name
                for block in blocks
                for one in (self.program.body[self.program.blocks[block].end - 1],)
                if one.predicate is not None
                and not blocks.issuperset(self.program.blocks[block].successors)
            }
            for _ in range(3):
                for one in body:
                    if one.parts[-1] == "pred" and not found.isdisjoint(definitions(one)):
                        found.update(uses(one))
            self._leaves[header] = frozenset(found)
        return self._leaves[header]

    def _follow(
        self, header: int, blocks: frozenset[int], path: Path, state: State
    ) -> tuple[list[Edge], list[Edge]]:
        self._inside.append(header)
        try:
            return self._region(header, blocks, path, state)
        finally:
            self._inside.pop()

    def _at(
        self, counter: Atom, state: State, changed: Iterable[str], stepping: dict[str, Poly]
    ) -> State:
        """Return the state after `counter` iterations, as far as it is known."""
        found = state.copy()
        for name in changed:
            base = found.registers.pop(name, None)
            if name in stepping and isinstance(base, Poly):
                found.registers[name] = base + stepping[name] * of(counter)
        return found

    def _wrong_steps(
        self, back: list[Edge], state: State, counter: Atom, stepping: dict[str, Poly]
    ) -> set[str]:
        """Return registers that do not hold base + (K + 1) * step where an iteration ends."""
        wrong = set()
        for name, step in stepping.items():
            base = state.registers.get(name)
            assert isinstance(base, Poly)
            after = base + step * (of(counter) + 1)
            if any(held.registers.get(name) != after for _, _, held in back):
                wrong.add(name)
        return wrong

    def _keeping(
        self,
        guesses: list[_Guess],
        counter: Atom,
        held: dict[str, tuple[Atom, Carried]],
        back: list[Edge],
    ) -> list[_Guess]:
        """Return the guesses of an iteration that hold of the next one wherever it ends."""
        kept = guesses
        for _, path, state in back:
            after: dict[Atom, Poly] = {}
            for name, (atom, one) in held.items():
                value = state.registers.get(name)
                if isinstance(value, Poly):
                    after[atom] = self._numbers.canonical(value, one.width, path, signed=True)
            lost = {atom for atom, _ in held.values() if atom not in after}
            kept = [
                guess
                for guess in kept
                if lost.isdisjoint(atoms_of(guess.formula))
                and self._numbers.holds(path, guess.at(after, of(counter) + 1))
            ]
        return kept

    def _discovered(
        self, header: int, blocks: frozenset[int], path: Path, state: State, names: set[str]
    ) -> _Found:
        """Follow an iteration from anything, to see what steps and what is compared."""
        older = self.thread.atoms.next_number
        tokens: dict[str, Atom] = {}
        start = state.copy()
        for name in sorted(names):
            held = start.registers.pop(name, None)
            if isinstance(held, Poly):
                tokens[name] = self.thread.atoms.symbol(f"{name} here", None, None)
                start.registers[name] = of(tokens[name])
        for one in self._body(blocks):
            for name in definitions(one):
                if name not in tokens:
                    start.registers.pop(name, None)
        self._compared[header] = []
        self._quiet += 1
        try:
            back, _ = self._follow(header, blocks, path, start)
        finally:
            self._quiet -= 1
            self._numbers.quiet = bool(self._quiet)
        steps: dict[str, Poly] = {}
        variant = _Variance(older)
        for name, token in tokens.items():
            changes = {
                held - of(token) if isinstance(held, Poly) else None
                for held in (edge[2].registers.get(name) for edge in back)
            }
            if len(changes) != 1:
                continue
            change = changes.pop()
            if change is not None and not any(map(variant.varies, change.atoms)):
                steps[name] = change
        guesses = self._guesses(header, state, tokens, steps, variant)
        return _Found(steps=steps, guesses=guesses)

    def _guesses(
        self,
        header: int,
        state: State,
        tokens: dict[str, Atom],
        steps: dict[str, Poly],
        variant: _Variance,
    ) -> tuple[_Guess, ...]:
        """Return what may hold of the iteration's number, from the comparisons in the loop."""
        mark = self.thread.atoms.symbol("K", 0)
        found: dict[Formula, None] = {}
        for raw in dict.fromkeys(self._compared[header]):
            for one in literals(raw):
                if not isinstance(one, Le | Eq | Ne):
                    continue
                poly = one.poly
                for name, token in tokens.items():
                    base = state.registers.get(name)
                    if name in steps and isinstance(base, Poly):
                        poly = poly.replace(token, base + steps[name] * of(mark))
                if mark not in poly.atoms or any(
                    variant.varies(atom) for atom in poly.atoms if atom is not mark
                ):
                    continue
                for formula in _shapes(one, poly, mark):
                    found[formula] = None
        return tuple(_Guess(formula, mark) for formula in found)[:48]


@dataclass(frozen=True, slots=True)
class _Guess:
    """What may hold of a loop's iterations.

    `mark` stands for the number of those before, or for what the loop carries in a register.
    """

    formula: Formula
    mark: Atom
    counts: bool = True

    def at(self, carried: Mapping[Atom, Poly], iteration: Atom | Poly) -> Formula:
        """Return it of an iteration, with what the loop then carries; what is not given stays."""
        value = of(iteration) if self.counts else carried.get(self.mark, of(self.mark))
        return replaced(self.formula, self.mark, value)


def _stores_own(one: Instruction) -> bool:
    """Whether an instruction may write the thread's own memory."""
    stores = isa.row(one).memory not in (Memory.NONE, Memory.HINT, Memory.READ)
    return stores and isa.space_of(one) in ("local", "generic")


def _bounds_of(atom: Atom, first: Poly) -> list[_Guess]:
    """Return that a register that a loop changes only rises, only falls, or is not negative."""
    here = of(atom)
    shapes = (Le(here - first), Le(first - here), Le(-here))
    return [_Guess(one, atom, counts=False) for one in shapes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What one iteration showed: changes of registers, and guesses."""

    steps: dict[str, Poly]
    guesses: tuple[_Guess, ...]


def _shapes(one: Le | Eq | Ne, poly: Poly, mark: Atom) -> list[Formula]:
    """Return what a comparison of p(K) suggests: of this iteration and of the one before."""
    before = poly.replace(mark, of(mark) - 1)
    first = Eq(of(mark))
    if isinstance(one, Le):
        plain: list[Formula] = [Le(before), Le(of(1) - before), Le(poly), Le(of(1) - poly)]
        return [*plain, disjunction([first, Le(before)]), disjunction([first, Le(of(1) - before)])]
    return [
        Le(of(1) - before), Le(before + 1), Le(-poly), Le(poly),
        disjunction([first, Le(of(1) - before)]), disjunction([first, Le(before + 1)]),
    ]  # fmt: skip


@dataclass(slots=True)
class _Variance:
    """Which atoms may differ from one iteration to the next: unknowns made since, and theirs."""

    older: int
    _known: dict[Atom, bool] = field(default_factory=dict)

    def varies(self, atom: Atom) -> bool:
        """Whether an atom may differ."""
        if atom.number <= self.older:
            return False
        if atom not in self._known:
            self._known[atom] = True
            if isinstance(atom.meaning, Symbol):
                return True
            inside = {other for fact in atom.facts for other in atoms_of(fact) if other is not atom}
            if isinstance(atom.meaning, Quotient):
                inside |= atom.meaning.dividend.atoms | atom.meaning.divisor.atoms
            self._known[atom] = not inside or any(self.varies(other) for other in inside)
        return self._known[atom]
