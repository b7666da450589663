"""Histories: calls in one process, between which the world changes as in training and serving.

Each call follows the one before with a choice of each kind (`Choice`): what became of the result
before, which tensors are passed, which values and shape they have, from where the call is made,
whether gradients are on, how one input lies in memory. The choices are a covering array: every
pair of choices occurs (every triple at `deep`), then every argument is changed alone. A result
that is held is read at once and again at the end, one that the caller wrote into once more after
that. Freed memory is poisoned before it is used again.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from random import Random

from cuassay.checks.base import Trial
from cuassay.checks.interface.inputs_used import pairs_of
from cuassay.checks.numeric.common import single_call
from cuassay.checks.numeric.listed_sizes import HOME_ELEMENTS, elements_of, home_axes
from cuassay.checks.state.answers import moved_names, placed, reseeded, varied_state
from cuassay.errors import CannotJudgeError
from cuassay.inputs.covering import Row, cover
from cuassay.inputs.geometry import fitted_sizes, legal, most_rows, try_sizes
from cuassay.model.axes import resolve, shape_of, smallest_workload_axes
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Index, IntegerRange, Lengths, Positive, Real
from cuassay.model.problem import STATE_SOURCE, Problem, Scalar, StateSource, TensorSpec
from cuassay.model.scenario import (
    Allocate,
    Autograd,
    Call,
    PoisonFreed,
    ReadResult,
    Refill,
    Release,
    Scenario,
    Step,
)
from cuassay.model.steps import Arrange, KeepMemory, Layout, Misuse, Overwrite
from cuassay.model.verdict import Profile


class Fate(enum.StrEnum):
    """What became of the result of the call before."""

    HELD = "held"  # to the end of the history, and read again there
    READ = "read"  # and released
    DROPPED = "dropped"  # without being read
    WRITTEN = "written"  # read, then overwritten by the caller, who still holds it
    VIEWED = "viewed"  # a view of it is held and read at the end, and it is not; where asked for


class Tensors(enum.StrEnum):
    """Which tensors a call is made on."""

    SAME = "same"
    NEW = "new"  # at addresses of their own: those before are still there
    RECYCLED = "recycled"  # at the addresses of those before, which were freed and poisoned


class Values(enum.StrEnum):
    """Which values differ from those of the call before."""

    ALL = "all"
    NONE = "none"
    ARGUMENT = "argument"  # one tensor or scalar alone
    ELEMENT = "element"  # one element of one tensor
    LATE = "late"  # one tensor beyond its first elements; this and those below where asked for
    FEW = "few"  # two elements of one large tensor, which change places
    ORDER = "order"  # the order of the slices of one tensor
    NEAR = "near"  # one tensor by less than a thousandth of itself: a step of training
    CLOSE = "close"  # one scalar by a sixty-fourth of itself, and back


_ASKED_FOR = (Values.LATE, Values.FEW, Values.ORDER, Values.NEAR, Values.CLOSE)


class Shape(enum.StrEnum):
    """How the shape differs from that of the call before."""

    SAME = "same"
    OTHER = "other"
    EQUAL = "equal"  # another shape with as many elements, or as many rows


class CalledFrom(enum.StrEnum):
    """From where a call is made."""

    HERE = "here"
    THREAD = "thread"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """How one call follows the one before.

    `name` says which argument changes, "" any; `target` the position of the shape that the call
    has, None any. A `first` choice begins a history, on the base of number `base`.
    """

    before: Fate = Fate.READ
    tensors: Tensors = Tensors.SAME
    values: Values = Values.ALL
    shape: Shape = Shape.SAME
    place: CalledFrom = CalledFrom.HERE
    grad: bool = False
    autograd: Autograd = Autograd.ON
    parameters: bool = False
    odd: bool = False  # one input in an unusual layout
    name: str = ""
    target: int | None = None
    first: bool = False
    base: int = 0


_KINDS = ("before", "tensors", "values", "shape", "place", "grad", "odd")
_OTHER_VALUES = 3  # sets of values that histories take in turn: each comes back
_ELEMENT_LIMIT = 4096
_HEAD = 8192  # elements that stay: caches are validated on a prefix of such a size
_ROWS = 1024  # of another shape with as many elements, on a CPU
_LITTLE_ELEMENTS, _LITTLE_FLOOR, _LITTLE_S = 1 << 17, 24, 0.5
_FEW = 2
_TRIED = 32  # places of which the one is taken whose exchange changes most
_REFUSED = 4  # inputs that are left out, one a call
_WORD = 8  # elements of 1 byte or more: a slice is whole words
_WIDE = 4  # bytes of a number that holds a change of a thousandth
_NEAR = 1.0 + 2.0**-15
_CLOSE = 2.0**-6
_POSITIONS = 4  # of one element, tried until one moves truth
_STREAM = "history"


def history_scenarios(trial: Trial) -> Iterator[Scenario]:
    """Yield histories at small sizes and, where those may be refused, at a listed size too.

    A kernel that keeps its results for large sizes alone needs one beyond its threshold.
    """
    small = trial.cases("small")
    if not small:
        return
    # The small shapes: the base, one that is shorter in every axis, then the others
    found: list[Mapping[str, int]] = []
    for case in trial.cases("small"):
        if dict(case.axes) not in found:
            found.append(dict(case.axes))
    base = found[0]
    least = {
        axis.name: min(sizes[axis.name] for sizes in found) for axis in trial.problem.var_axes()
    }
    shorter = try_sizes(trial.problem, base, least)
    if shorter is not None and legal(trial.problem, shorter) and shorter != base:
        found = [base, shorter, *(sizes for sizes in found[1:] if dict(sizes) != shorter)]
    world = World.of(trial, small[0], shapes=found)
    for number, block in enumerate(_blocks(plan(trial, world), trial.effort.history_calls)):
        label = f"history {number + 1} of calls"
        yield _Writer(trial=trial, world=world).scenario(block, label, unrecorded=not number)
    # The reference may be another under autocast: alone, so that this excuses nothing else. Not
    # last: it may take three processes one after another, while other sides are done.
    yield Scenario(
        label="calls without and with autocast",
        cases=small[:1],
        steps=(
            Allocate(slot="a", case=0),
            Call(slot="a", result="r0"),
            ReadResult(result="r0"),
            Call(slot="a", result="r1", autocast=True),
            ReadResult(result="r1"),
        ),
        fresh=True,
    )
    yield from _loaded(trial, small[0])
    home = home_axes(trial)
    if home is not None and home != dict(small[0].axes):
        sizes = [resolve(trial.problem.axes, w.axes) for w in trial.problem.workloads]
        larger = sorted((s for s in sizes if s != dict(home)), key=lambda s: sum(s.values()))
        limit = HOME_ELEMENTS[trial.device.kind]
        shapes = [home, *[s for s in larger[:1] if elements_of(trial.problem, s) <= limit]]
        world = World.of(trial, placed(small[0], home), shapes=shapes)
        choices = [choice for block in _essential(world) for choice in block]
        writer = _Writer(trial=trial, world=world)
        yield writer.scenario(choices, "history of calls at a listed size")
    for case in trial.cases("beyond"):
        world = World.of(trial, placed(small[0], case.axes), shapes=[dict(case.axes)])
        choices = [choice for block in _essential(world) for choice in block]
        writer = _Writer(trial=trial, world=world)
        yield writer.scenario(choices, "history of calls beyond a size of the source")
    if not trial.device.on_gpu:  # there a pointer to nothing may cost the context
        # After each refusal other values than those refused, and than those before.
        cases = (
            small[0],
            *(
                reseeded(
                    small[0], label=f"other values {n}", seed=trial.seed("STATE001", "after", n)
                )
                for n in (1, 2)
            ),
        )
        steps: list[Step] = [Allocate(slot="s", case=0), Call(slot="s", result="r")]
        steps.append(ReadResult(result="r"))
        named = [s.name for s in trial.problem.inputs if isinstance(s, TensorSpec)]
        for number, name in enumerate(named[:_REFUSED], 1):
            steps += [
                Misuse(slot="s", name=name),
                Allocate(slot=f"s{number}", case=1 + number % 2),
                Call(slot=f"s{number}", result=f"r{number}"),
                ReadResult(result=f"r{number}"),
            ]
        label = "calls after others that were refused"
        yield Scenario(label=label, cases=cases, steps=tuple(steps), fresh=True)
    yield from _late(trial)
    yield from _little(trial)


def _blocks(blocks: Sequence[Sequence[Succession]], most: int) -> list[list[Succession]]:
    """Return histories of about `most` calls; what is a block stays together.

    Each but those that begin in an unusual way holds its first result to the end and refills
    the tensors that it was made on.
    """
    found: list[list[Succession]] = []
    for block in blocks:
        fits = found and len(found[-1]) + len(block) <= most
        if not fits or block[0].first:
            found.append([] if block[0].first else [Succession(before=Fate.HELD)])
        found[-1] += block
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What may change in histories of one problem around one base case.

    `shapes` are axis sizes, that of the base first. `equal` maps the position of the base's
    shape and of another with as many elements, or rows, to each other. `movable` are the
    arguments that may change alone, `elements` the tensors of which one element may; `scalars`
    the values that a scalar moves to, by the position of the base on which it has an effect;
    `layouts` one unusual layout for each input that can have one.
    """

    base: Case
    bases: tuple[Case, ...]
    shapes: tuple[Mapping[str, int], ...]
    equal: Mapping[int, int]
    movable: tuple[str, ...]
    elements: tuple[str, ...]
    scalars: Mapping[str, Mapping[int, Scalar]]
    layouts: Mapping[str, Layout]
    gradients: bool
    streams: bool

    @staticmethod
    def of(trial: Trial, base: Case, *, shapes: Sequence[Mapping[str, int]]) -> World:
        """Return what may change around `base`."""
        problem = trial.problem
        every = list(shapes)
        equal: dict[int, int] = {}
        limit = 2 * max(elements_of(problem, sizes) for sizes in shapes)
        # On a CPU the blocks of a launch run one after another, and each row may have one.
        rows = max(_ROWS, most_rows(problem, every[0])) if not trial.device.on_gpu else limit
        partner = _equal_shape(problem, every[0], limit=limit, rows=rows)
        if partner is not None:
            if partner not in every:
                every.append(partner)
            equal = {0: every.index(partner), every.index(partner): 0}
        pairs = [(b, m) for b, m in pairs_of(trial) if m.in_domain and len(moved_names(b, m)) == 1]
        moved = {moved_names(b, m)[0]: (b, m) for b, m in pairs}
        tensors = {s.name: s for s in problem.inputs if isinstance(s, TensorSpec)}
        # Scalars act on small or on large data alone: each such data is a base.
        bases = [base]
        scalars: dict[str, dict[int, Scalar]] = {}
        for before, after in pairs:
            name = moved_names(before, after)[0]
            if name in tensors:
                continue
            own = dataclasses.replace(placed(before, base.axes), label=f"base for {name}")
            number = next(
                (n for n, b in enumerate(bases) if (b.fills, b.seed) == (own.fills, own.seed)), -1
            )
            if number < 0:
                number = len(bases)
                bases.append(own)
            scalars.setdefault(name, {})[number] = after.scalars[name]
        odd = odd_layouts(problem, base)
        few = 3 if trial.profile is Profile.QUICK else len(odd)
        return World(
            base=base,
            bases=tuple(bases),
            shapes=tuple(every),
            equal=equal,
            movable=tuple(n for n in moved if n not in tensors or n in base.fills),
            elements=tuple(
                name
                for name in moved
                if name in tensors
                and name in base.fills
                and explicit_is_legal(tensors[name])
                and 2 <= prod(shape_of(tensors[name].shape, base.axes)) <= _ELEMENT_LIMIT
            ),
            scalars=scalars,
            layouts=dict(list(odd.items())[:few]),
            gradients=any(s.dtype.is_floating for s in tensors.values()),
            streams=trial.device.on_gpu,
        )


def _equal_shape(
    problem: Problem, sizes: Mapping[str, int], *, limit: int, rows: int
) -> dict[str, int] | None:
    """Return other legal sizes at which some input has as many elements, the most inputs first.

    Two axes are exchanged, or one is halved and another doubled. Where no input keeps its
    elements, one that keeps its rows (all axes but the last) will do. There are no more than
    `limit` elements in all, and `rows` rows of a tensor.
    """
    best: tuple[tuple[int, int], dict[str, int]] | None = None
    names = [axis.name for axis in problem.var_axes()]
    tensors = [spec for spec in problem.inputs if isinstance(spec, TensorSpec)]
    old = [shape_of(spec.shape, sizes) for spec in tensors]
    for first, second in [(a, b) for a in names for b in names if a != b]:
        changes = [{first: sizes[second], second: sizes[first]}]
        if not sizes[first] % 2:
            changes.append({first: sizes[first] // 2, second: sizes[second] * 2})
        for change in changes:
            found = try_sizes(problem, sizes, change)
            if found is None or found == dict(sizes) or not legal(problem, found):
                continue
            if elements_of(problem, found) > limit or most_rows(problem, found) > rows:
                continue
            new = [shape_of(spec.shape, found) for spec in tensors]
            pairs = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
            score = (
                sum(prod(a) == prod(b) for a, b in pairs),
                sum(prod(a[:-1]) == prod(b[:-1]) for a, b in pairs),
            )
            if max(score) > 0 and (best is None or score > best[0]):
                best = score, found
    return best[1] if best else None


def plan(trial: Trial, world: World) -> list[list[Succession]]:
    """Return every call's choice: what is known to matter most, then the rest of the array."""
    essential = _essential(world)
    levels = (
        tuple(fate for fate in Fate if fate is not Fate.VIEWED),
        tuple(Tensors),
        tuple(v for v in Values if v not in _ASKED_FOR and _has(world, v)),
        tuple(s for s in Shape if _has_shape(world, s)),
        tuple(p for p in CalledFrom if p is not CalledFrom.STREAM or world.streams),
        (False, True) if world.gradients else (False,),
        (False, True) if world.layouts else (False,),
    )
    # One thing alone that is unusual about a call, before calls with several: what is wrong is
    # then that thing.
    plain = Succession(tensors=Tensors.NEW, values=Values.NONE)
    alone = [dataclasses.replace(plain, place=p) for p in levels[4] if p is not CalledFrom.HERE]
    if world.gradients:
        alone.append(dataclasses.replace(plain, grad=True))
    first = [*(choice for block in essential for choice in block), *alone]
    rows = tuple(tuple(getattr(choice, kind) for kind in _KINDS) for choice in first)
    found = _covered(levels, trial.effort.history_strength, rows)
    # What a call from elsewhere may break comes last in the run of the checks' own order.
    rest = sorted([_choice(row) for row in found[len(rows) :]], key=_unusual)
    usual = [choice for choice in rest if not _unusual(choice)]
    return [*essential, *([choice] for choice in (*usual, *alone, *rest[len(usual) :]))]


def _unusual(choice: Succession) -> int:
    return (choice.place is not CalledFrom.HERE) + choice.grad + choice.odd


@cache
def _covered(levels: tuple[Row, ...], strength: int, first: tuple[Row, ...]) -> list[Row]:
    return cover(levels, strength=strength, legal=_is_possible, first=first)


def _choice(row: Row) -> Succession:
    return Succession(**dict(zip(_KINDS, row, strict=True)))


def _is_possible(row: Row) -> bool:
    """Whether a call can be made so: the same tensors have the same shape and layout."""
    choice = _choice(row)
    if choice.tensors is Tensors.SAME and (choice.shape is not Shape.SAME or choice.odd):
        return False
    if choice.odd and choice.tensors is not Tensors.NEW:
        return False  # laying a tensor out anew gives it another address
    return not (choice.values is Values.ELEMENT and choice.shape is not Shape.SAME)


def _has(world: World, values: Values) -> bool:
    match values:
        case Values.ARGUMENT:
            return bool(world.movable)
        case Values.ELEMENT:
            return bool(world.elements)
        case _:
            return True


def _has_shape(world: World, shape: Shape) -> bool:
    match shape:
        case Shape.OTHER:
            return len(world.shapes) > 1
        case Shape.EQUAL:
            return bool(world.equal)
        case _:
            return True


def _essential(world: World) -> list[list[Succession]]:
    """Return the choices that real faults were made of, each argument and each element too.

    The members of a block follow one another. A block that is `first` begins a history, with
    its first choice as the first call: what a kernel keeps of an unusual call is then used for
    the ordinary ones after it.
    """
    found = [
        [Succession(before=Fate.HELD), Succession(before=Fate.READ, tensors=Tensors.RECYCLED)],
        [Succession(before=Fate.HELD, tensors=Tensors.NEW)],
        [Succession(before=Fate.WRITTEN, values=Values.NONE)] * 2,
        [Succession(before=Fate.VIEWED)],
    ]
    if _has_shape(world, Shape.EQUAL):
        found.append([Succession(tensors=Tensors.RECYCLED, shape=Shape.EQUAL)] * 2)
    found += [
        [Succession(values=Values.ARGUMENT, name=name)]
        for name in world.movable
        if name not in world.scalars
    ]
    found += [[Succession(values=Values.ELEMENT, name=name)] for name in world.elements]
    for number in range(len(world.bases)):
        # There and back: what is kept of either value shows.
        moves = [
            Succession(values=Values.ARGUMENT, name=name)
            for name, of in world.scalars.items()
            if number in of
            for _ in range(2)
        ]
        # A table of rounded numbers takes one of two that are close for the other.
        moves += [
            Succession(values=Values.CLOSE, name=name)
            for name, of in world.scalars.items()
            if number in of and isinstance(world.bases[number].scalars.get(name), float)
            for _ in range(4)
        ]
        if moves:
            found.append([Succession(values=Values.NONE, first=True, base=number), *moves])
    if _has_shape(world, Shape.OTHER):
        # The base last, then all again: each shape comes before and after each other one.
        order = [*range(1, len(world.shapes)), 0] * 2
        other = Succession(
            before=Fate.HELD, tensors=Tensors.NEW, shape=Shape.OTHER, values=Values.NONE
        )
        turns = [dataclasses.replace(other, target=target) for target in order]
        found.append([dataclasses.replace(turns[0], first=True), *turns[1:]])
    plain = Succession(tensors=Tensors.NEW, values=Values.NONE)
    layouts = [
        choice
        for name in world.layouts
        for choice in [dataclasses.replace(plain, odd=True, name=name), plain] * 2
    ]
    if layouts:
        found.append([dataclasses.replace(layouts[0], first=True), *layouts[1:]])
    return found


def _loaded(trial: Trial, base: Case) -> Iterator[Scenario]:
    """Yield calls of a module between which its state takes other values.

    As an optimizer writes them where the state lies, and back, then as a checkpoint brings them in
    other tensors: what a module made of its weights at the first call shows. None of a module
    that keeps the state with which it was built.
    """
    source = trial.problem.usual_state.get(STATE_SOURCE)
    if source not in (StateSource.GIVEN, StateSource.GIVEN_EVALUATION):
        return
    varied = varied_state(trial, base, code="STATE001")
    if not varied:
        return
    other = dataclasses.replace(
        base, label=f"{base.label}, another state", fills={**base.fills, **varied}
    )
    steps: list[Step] = []
    places = (("a", 0), ("a", 1), ("a", 0), ("b", 1))
    for number, (slot, case) in enumerate(places):
        new = slot not in [before for before, _ in places[:number]]
        steps += [
            Allocate(slot=slot, case=case) if new else Refill(slot=slot, case=case),
            Call(slot=slot, result=f"r{number}"),
            ReadResult(result=f"r{number}"),
        ]
    yield Scenario(
        label="calls between which the module's state changes",
        cases=(base, other),
        steps=tuple(steps),
        fresh=True,
    )


def _late(trial: Trial) -> Iterator[Scenario]:
    """Yield a history at the smallest workload in which tensors change beyond their beginning.

    None where no tensor is that large, or the workload is too large for a check that needs no
    size.
    """
    problem, small = trial.problem, trial.cases("small")
    if not problem.workloads:
        return
    axes = smallest_workload_axes(problem)
    roomy = trial.device.on_gpu and trial.profile is not Profile.QUICK
    if elements_of(problem, axes) > HOME_ELEMENTS["cuda" if roomy else "cpu"]:
        return
    world = World.of(trial, placed(small[0], axes), shapes=[axes])
    names = [
        spec.name
        for spec in problem.inputs
        if isinstance(spec, TensorSpec)
        and spec.name in world.base.fills
        and explicit_is_legal(spec)
        and prod(shape_of(spec.shape, axes)) > _HEAD
    ]
    # There and back: between two changes the plain values are back.
    choices = [Succession(values=Values.LATE, name=name) for name in names for _ in range(2)]
    if choices:
        label = f"history of elements beyond the first {_HEAD}"
        yield _Writer(trial=trial, world=world).scenario(choices, label)


def _little(trial: Trial) -> Iterator[Scenario]:
    """Yield a history in which large tensors change little: what tells few bits apart misses it.

    Few elements, the order of slices, all of it by less than a thousandth. A key made of rounded
    sums, of some places, of words of 8 bytes or of what is nearly equal stays the same.
    """
    problem, small = trial.problem, trial.cases("small")
    if not problem.workloads or problem.built:
        return
    most = max(problem.workloads, key=lambda w: elements_of(problem, resolve(problem.axes, w.axes)))
    axes = fitted_sizes(
        problem, resolve(problem.axes, most.axes), budget=_LITTLE_ELEMENTS, floor=_LITTLE_FLOOR
    )
    for axis in problem.var_axes():  # slices of whole words
        whole = axes[axis.name] // _WORD * _WORD
        changed = try_sizes(problem, axes, {axis.name: whole}) if whole else None
        axes = changed if changed is not None and legal(problem, changed) else axes
    if elements_of(problem, axes) > 4 * _LITTLE_ELEMENTS:
        return
    base = placed(small[0], axes)
    if trial.scenario_s(single_call(base, label=base.label)) > _LITTLE_S:
        return
    named = [spec for spec in problem.inputs if isinstance(spec, TensorSpec)]
    large = sorted(
        (s for s in named if s.name in base.fills and _elements_are_free(s) and s.shape),
        key=lambda spec: -prod(shape_of(spec.shape, axes)),
    )
    choices = []
    for number, spec in enumerate(large[: trial.effort.little_tensors]):
        if shape_of(spec.shape, axes)[0] <= _FEW:
            continue
        kinds = [Values.FEW]
        if len(spec.shape) > 1 and (not number or trial.profile is not Profile.QUICK):
            kinds.append(Values.ORDER)
        free = isinstance(spec.domain, Real) and spec.domain.low is spec.domain.high is None
        if free and spec.dtype.is_floating and spec.dtype.itemsize >= _WIDE:
            kinds.append(Values.NEAR)
        # There and back, as above.
        choices += [Succession(values=kind, name=spec.name) for kind in kinds for _ in range(2)]
    if choices:
        world = World.of(trial, base, shapes=[axes])
        yield _Writer(trial=trial, world=world).scenario(choices, "history of little changes")


@dataclass(slots=True, kw_only=True)
class _Writer:
    """Writes one history down as steps, a call at a time."""

    trial: Trial
    world: World
    _cases: list[Case] = field(default_factory=list)
    _steps: list[Step] = field(default_factory=list)
    _case: Case = field(init=False)
    _base: int = 0
    _position: int = 0  # of the current shape
    _others: int = 0
    _arguments: int = 0
    _values: int = 0
    _slot: str = ""
    _calls: int = 0
    _held: list[str] = field(default_factory=list)
    _freed: bool = False

    def scenario(
        self, choices: Sequence[Succession], label: str, *, unrecorded: bool = False
    ) -> Scenario:
        """Return the history in a process of its own.

        With `unrecorded` it ends as training and inference call: with parameters of a module, with
        these and without under torch.no_grad(), then in inference mode.
        A buffer that was made there is refused by later calls that record, so that none follows.
        """
        left = list(choices)
        opening = left.pop(0) if left and left[0].first else Succession(values=Values.NONE)
        self._base, self._case = opening.base, self.world.bases[opening.base]
        if any(choice.values is Values.ARGUMENT for choice in choices):
            # A kernel that ignores an argument is then wrong from its first call on, and is
            # not taken for one that keeps an earlier value.
            for name in self.world.movable:
                self._case = self._argument(name)
        self._call(dataclasses.replace(opening, tensors=Tensors.NEW))
        for choice in left:
            self._end_call(choice.before)
            self._call(choice)
        self._end_call(Fate.READ)
        # Once more as at first: what was wrong then and is right now is a matter of state.
        self._case = self._cases[0]
        self._call(Succession(tensors=Tensors.NEW, values=Values.NONE))
        self._end_call(Fate.READ)
        if unrecorded:
            plain = Succession(tensors=Tensors.NEW, values=Values.NONE)
            weights = dataclasses.replace(plain, parameters=self.world.gradients)
            for choice in (
                *[weights] * self.world.gradients,
                *[dataclasses.replace(weights, autograd=Autograd.OFF)] * self.world.gradients,
                dataclasses.replace(plain, autograd=Autograd.OFF),
                dataclasses.replace(plain, autograd=Autograd.INFERENCE),
            ):
                self._call(choice)
                self._end_call(Fate.READ)
        self._steps += [ReadResult(result=result) for result in self._held]
        cases, steps = tuple(self._cases), tuple(self._steps)
        return Scenario(label=label, cases=cases, steps=steps, fresh=True)

    def _call(self, choice: Succession) -> None:
        self._change(choice)
        if self._case not in self._cases:
            self._cases.append(self._case)
        case = self._cases.index(self._case)
        if choice.tensors is Tensors.RECYCLED:
            self._steps.append(Release(name=self._slot))
        if self._freed or choice.tensors is Tensors.RECYCLED:
            self._steps.append(PoisonFreed())
            self._freed = False
        if choice.tensors is not Tensors.SAME:
            self._slot = f"s{self._calls}"
            self._steps.append(Allocate(slot=self._slot, case=case))
        elif choice.values is not Values.NONE:
            self._steps.append(Refill(slot=self._slot, case=case))
        if choice.odd:
            name = choice.name or self._turn(tuple(self.world.layouts))
            self._steps.append(Arrange(slot=self._slot, layouts={name: self.world.layouts[name]}))
        self._steps.append(
            Call(
                slot=self._slot,
                result=f"r{self._calls}",
                stream=_STREAM if choice.place is CalledFrom.STREAM else "",
                thread=choice.place is CalledFrom.THREAD,
                gradients=choice.grad,
                autograd=choice.autograd,
                parameters=choice.parameters,
            )
        )

    def _end_call(self, fate: Fate) -> None:
        """Let the result of the last call have its fate; what is held is read at once too."""
        result = f"r{self._calls}"
        self._calls += 1
        if fate is not Fate.DROPPED:
            self._steps.append(ReadResult(result=result))
        match fate:
            case Fate.HELD:
                self._held.append(result)
            case Fate.VIEWED:
                self._held.append(result)
                self._steps.append(KeepMemory(result=result))
            case Fate.WRITTEN:
                self._held.append(result)
                self._steps += [Overwrite(result=result), ReadResult(result=result)]
            case Fate.READ | Fate.DROPPED:
                self._steps.append(Release(name=result))
                self._freed = True

    def _change(self, choice: Succession) -> None:
        """Make the next call's case from the last one's."""
        match choice.shape:
            case Shape.SAME:
                pass
            case Shape.OTHER:
                target = choice.target
                self._place_at(self._other_shape() if target is None else target)
            case Shape.EQUAL:
                self._place_at(self.world.equal.get(self._position, next(iter(self.world.equal))))
        match choice.values:
            case Values.NONE:
                pass
            case Values.ALL:
                self._values += 1
                number = self._values % _OTHER_VALUES
                base = self.world.bases[self._base]
                seed = self.trial.seed("STATE001", "other", number) if number else base.seed
                self._case = self._plain_fills(
                    reseeded(
                        self._case,
                        label=f"other values {number}" if number else base.label,
                        seed=seed,
                    )
                )
            case Values.ARGUMENT:
                self._case = self._argument(choice.name or self._turn(self.world.movable))
            case Values.ELEMENT:
                # One element of one tensor changes so that truth moves: of `choice.name`, else of
                # the first tensor with such an element; an argument as a whole where there is none.
                for name in [choice.name] if choice.name else self.world.elements:
                    case = self._one_element(name)
                    if case is not None:
                        self._case = case
                        break
                else:
                    self._case = self._argument(choice.name or self._turn(self.world.movable))
            case Values.CLOSE:
                self._case = self._close(choice.name)
            case Values.LATE:
                self._case = self._late(choice.name)
            case Values.FEW | Values.ORDER | Values.NEAR:
                self._case = self._little(choice.name, choice.values)

    def _turn(self, names: Sequence[str]) -> str:
        self._arguments += 1
        return names[self._arguments % len(names)]

    def _other_shape(self) -> int:
        """Return the base's position from any other shape, and each other one in turn from it."""
        if self._position:
            return 0
        self._others += 1
        return 1 + (self._others - 1) % (len(self.world.shapes) - 1)

    def _place_at(self, position: int) -> None:
        self._position = position
        self._case = placed(self._plain_fills(self._case), self.world.shapes[position])

    def _plain_fills(self, case: Case) -> Case:
        """Return the case without single elements of their own: those belong to one shape."""
        base = self.world.bases[self._base].fills
        fills = {
            name: base[name] if fill.kind == "explicit" and name in self.world.elements else fill
            for name, fill in case.fills.items()
        }
        return dataclasses.replace(case, fills=fills)

    def _argument(self, name: str) -> Case:
        """Return the case with one argument moved, or moved back."""
        case, label = self._case, f"{name} moved"
        if name in self.world.scalars:
            base = self.world.bases[self._base].scalars
            of = self.world.scalars[name]
            moved = of.get(self._base, next(iter(of.values())))
            value = base[name] if name in base and case.scalars.get(name) == moved else moved
            return dataclasses.replace(case, label=label, scalars={**case.scalars, name: value})
        fill = self._plain_fills(case).fills[name]
        parameters = dict(fill.parameters)
        parameters.pop("head", None)
        if not parameters.pop("salt", 0):
            parameters["salt"] = 1
        moved_fill = Fill(kind=fill.kind, parameters=parameters)
        return dataclasses.replace(case, label=label, fills={**case.fills, name: moved_fill})

    def _close(self, name: str) -> Case:
        """Return the case with one scalar a little larger or smaller in turn, or as it was."""
        usual = self.world.bases[self._base].scalars[name]
        spec = next(one for one in self.trial.problem.inputs if one.name == name)
        low, high = getattr(spec.domain, "low", None), getattr(spec.domain, "high", None)
        value = usual
        if self._case.scalars[name] == usual:
            self._arguments += 1
            value = float(usual) * (1.0 + (_CLOSE if self._arguments % 2 else -_CLOSE))
            legal = (low is None or low <= value) and (high is None or value <= high)
            value = value if legal and isinstance(spec.domain, Real | Positive) else usual
        scalars = {**self._case.scalars, name: value}
        return dataclasses.replace(self._case, label=f"{name} close", scalars=scalars)

    def _late(self, name: str) -> Case:
        fill = self._case.fills[name]
        parameters = dict(fill.parameters)
        if parameters.pop("head", None) is None:
            parameters |= {"salt": 1, "head": _HEAD}
        else:
            parameters.pop("salt")
        late = Fill(kind=fill.kind, parameters=parameters)
        label = f"{name} changed beyond its first {_HEAD} elements"
        fills = {**self._case.fills, name: late}
        return dataclasses.replace(self._case, label=label, fills=fills)

    def _little(self, name: str, kind: Values) -> Case:
        """Return the case with one tensor changed a little, or as it was."""
        from cuassay.inputs.packed import codes_of

        fill = self._case.fills[name]
        parameters = dict(fill.parameters)
        known = ("exchange", "scale_by", "take", "take_axis", "take_of")
        had = [parameters.pop(one) for one in known if one in parameters]
        label = f"{name} as before"
        if not had:
            spec = next(one for one in self.trial.problem.inputs if one.name == name)
            assert isinstance(spec, TensorSpec)
            shape = shape_of(spec.shape, self._case.axes)
            seed = self.trial.seed("STATE001", "little", name)
            if kind is Values.NEAR:
                label = f"{name} a little larger"
                parameters["scale_by"] = _NEAR
            elif kind is Values.FEW or spec.shape[0] not in self._case.axes:
                label = f"two elements of {name} in each other's place"
                inputs = self.trial.inputs(self._case)
                values, random = inputs[name], Random(seed)
                assert not isinstance(values, bool | int | float)
                # Of a table rows that this call looks up: others have no say in its result.
                looked_up = sorted(
                    {
                        int(row)
                        for other in self.trial.problem.inputs
                        if isinstance(other.domain, Index) and other.domain.axis == spec.shape[0]
                        if not isinstance(rows := inputs[other.name], bool | int | float)
                        for row in rows.reshape(-1).tolist()
                        if 0 <= row < shape[0]
                    }
                )
                places, wide = looked_up or list(range(shape[0])), prod(shape[1:])
                flat = codes_of(values).double().reshape(-1)
                tried = [
                    random.choice(places) * wide + random.randrange(wide) for _ in range(_TRIED)
                ]
                parameters["exchange"] = max(
                    (at for at in tried if at + 1 < flat.numel()),
                    key=lambda at: abs(float(flat[at] - flat[at + 1])),
                    default=0,
                )
            else:
                label = f"slices of {name} in another order"
                order = Random(seed).sample(range(shape[0]), shape[0])
                parameters |= {"take": tuple(order), "take_axis": spec.shape[0]}
                parameters["take_of"] = shape[0]
        fills = {**self._case.fills, name: Fill(kind=fill.kind, parameters=parameters)}
        return dataclasses.replace(self._case, label=label, fills=fills)

    def _one_element(self, name: str) -> Case | None:
        import torch

        trial, base = self.trial, self._case
        old = trial.inputs(base)[name]
        new = trial.inputs(self._argument(name))[name]
        if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
            return None
        if not 2 <= old.numel() <= _ELEMENT_LIMIT:
            return None
        differing = (old != new).reshape(-1).nonzero().reshape(-1)
        for attempt in range(_POSITIONS if differing.numel() else 0):
            seed = trial.seed("STATE001", "element", name, attempt)
            position = int(differing[seed % differing.numel()])
            values = old.reshape(-1).tolist()
            values[position] = new.reshape(-1)[position].item()
            fill = Fill(kind="explicit", parameters={"values": tuple(values)})
            label = f"element {position} of {name} moved"
            case = dataclasses.replace(base, label=label, fills={**base.fills, name: fill})
            try:
                moves_truth = trial.moves(base, case)
            except CannotJudgeError:  # the reference cannot run it: nothing to compare
                moves_truth = False
            if moves_truth:
                return case
        return None


def explicit_is_legal(spec: TensorSpec) -> bool:
    """Whether one element may change alone: not where elements constrain each other."""
    return spec.dtype.itemsize > 1 and _elements_are_free(spec)


def _elements_are_free(spec: TensorSpec) -> bool:
    match spec.domain:
        case Real() | Positive() | IntegerRange() | Lengths():
            return True
        case Index(unique=unique):
            return not unique
        case _:
            return False


def odd_layouts(problem: Problem, case: Case) -> dict[str, Layout]:
    """Return a layout that is not row-major for every input that can have one.

    Not of integers: a kernel that ignores strides would take what lies between the elements
    for indices, and write anywhere.
    """
    found = {}
    for spec in problem.inputs:
        if not isinstance(spec, TensorSpec) or not spec.dtype.is_floating:
            continue
        shape = shape_of(spec.shape, case.axes)
        if len(shape) > 1 and min(shape[-2:]) > 1:
            found[spec.name] = Layout.TRANSPOSED
        elif shape and shape[-1] > 1:
            found[spec.name] = Layout.STEPPED
    return found
