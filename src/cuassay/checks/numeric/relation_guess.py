"""Which relations to try: declared ones, and guesses that the float64 reference confirms.

Guesses come from axes and shapes alone, so most of them are wrong; one is used only if the
reference in float64 obeys it on several small inputs. A declared relation that the reference
breaks is a fault of the problem and is reported as such.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from cuassay.checks.base import Trial
from cuassay.checks.numeric.listed_sizes import home_axes
from cuassay.checks.numeric.relation_laws import Law, laws
from cuassay.checks.numeric.relation_members import members, plain_axis
from cuassay.checks.numeric.relation_residual import holds_exactly
from cuassay.errors import CannotJudgeError, CuassayError, LiftError
from cuassay.inputs.geometry import tensor_inputs
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Real
from cuassay.model.problem import ExprAxis, Problem, TensorSpec
from cuassay.model.relation import (
    AdditiveOver,
    Conserves,
    DuplicatesAgree,
    Homogeneous,
    LinearIn,
    PermutationEquivariant,
    PrefixStable,
    Relation,
    RowsIndependent,
    RowsSumToOne,
    ShiftInvariant,
    text_of,
)

if TYPE_CHECKING:
    from torch import Tensor

_ELEMENTS = {"cpu": 1 << 18, "cuda": 1 << 24}
_DEGREES = (-1, 0, 1, 2)


def element_limit(trial: Trial) -> int:
    """Return the most elements that a member of a relation may have on the trial's device."""
    return _ELEMENTS[trial.device.kind]


def base_case(trial: Trial, *path: object) -> Case | None:
    """Return a small case (a listed shape where small ones may be refused) under its own seed."""
    cases = [case for case in trial.cases("small") if case.in_domain]
    if not cases:
        return None
    axes = home_axes(trial) or cases[0].axes
    return dataclasses.replace(cases[0], axes=dict(axes), seed=trial.seed("META001", *path))


def relations(trial: Trial) -> Iterator[Relation]:
    """Yield the relations to use: declared ones first, then confirmed guesses, kinds in turn.

    Raises CannotJudgeError for a declared relation that the float64 reference breaks. A
    reference that cannot be lifted confirms nothing: then only declared ones are used.
    """
    declared = [_declared(trial, relation) for relation in trial.problem.relations]
    yield from declared
    found = _Found(trial)
    for relation in declared:
        found.remember(relation)
    first, *others = guesses(trial.problem)
    # All of the strongest kind first: a weaker relation on the same outputs adds nothing.
    rows = [made for guess in first if (made := found.use(guess)) is not None]
    yield from _in_turn([rows, *others], lambda g: g if g in rows else found.use(g))


class _Found:
    """What is used so far: no guess that it implies is worth a scenario."""

    def __init__(self, trial: Trial) -> None:
        self._problem, self._verifier = trial.problem, RelationTrials(trial)
        self._known: set[str] = set()
        self._covered: dict[str, set[str]] = {}

    def use(self, guess: Relation) -> Relation | None:
        """Return the confirmed guess on the outputs that nothing stronger speaks of, or None."""
        if text_of(guess) in self._known:
            return None
        found = self._verifier.confirmed(guess)
        match guess:  # by the relation that implies it on the same outputs
            case (
                PermutationEquivariant(axis=axis)
                | PrefixStable(axis=axis)
                | DuplicatesAgree(axis=axis)
            ):
                covered = self._covered.get(text_of(RowsIndependent(axis=axis)))
            case Homogeneous(input=name, degree=1):
                covered = self._covered.get(text_of(LinearIn(input=name)))
            case _:
                covered = None
        if found is not None and covered and not isinstance(found, RowsSumToOne):
            left = tuple(name for name in found.outputs if name not in covered)
            found = dataclasses.replace(found, outputs=left) if left else None
        if found is not None:
            self.remember(found)
        return found

    def remember(self, relation: Relation) -> None:
        """Note a relation that is used."""
        self._known.add(text_of(relation))
        if isinstance(relation, RowsIndependent | LinearIn):
            every = tuple(spec.name for spec in self._problem.outputs)
            covered = self._covered.setdefault(text_of(relation), set())
            covered.update(relation.outputs or every)


def _in_turn(
    kinds: Sequence[Sequence[Relation]], confirm: Callable[[Relation], Relation | None]
) -> Iterator[Relation]:
    """Yield the next confirmed relation of every kind, round by round, until none is left."""
    left = [iter(kind) for kind in kinds]
    while left:
        for kind in list(left):
            found = next((made for guess in kind if (made := confirm(guess))), None)
            if found is None:
                left.remove(kind)
            else:
                yield found


def _declared(trial: Trial, relation: Relation) -> Relation:
    verifier = RelationTrials(trial)
    try:
        broken = verifier.broken(relation)
    except LiftError:
        return relation
    except CuassayError as error:
        raise CannotJudgeError(
            f"problem '{trial.problem.name}' declares {text_of(relation)}, which cannot be "
            f"tried on its reference: {error}"
        ) from error
    if broken:
        raise CannotJudgeError(
            f"problem '{trial.problem.name}' declares {text_of(relation)}, but its own reference "
            f"in float64 breaks it for {broken}; correct the declaration or leave it out"
        )
    return relation


class RelationTrials:
    """Tries relations on the float64 reference, on small cases of several seeds."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._bases = [
            base
            for number in range(trial.effort.relation_seeds)
            if (base := base_case(trial, "verify", number)) is not None
        ]
        self._answers: dict[str, tuple[Tensor, ...]] = {}
        self._reads: dict[str, frozenset[int]] = {}

    def confirmed(self, guess: Relation) -> Relation | None:
        """Return the guess limited to the outputs that obey it, None where none does."""
        problem = self._trial.problem
        try:
            obeyed = self._obeyed(guess)
            if isinstance(guess, LinearIn | Homogeneous | Conserves | ShiftInvariant) and obeyed:
                obeyed &= self._readers(guess.input)
        except CuassayError:
            return None
        if not obeyed:
            return None
        if isinstance(guess, RowsSumToOne):
            return guess
        names = tuple(problem.outputs[position].name for position in sorted(obeyed))
        return dataclasses.replace(guess, outputs=names)

    def broken(self, relation: Relation) -> str:
        """Return the names of the outputs that break a declared relation, or nothing.

        A relation that none of them can be tried on counts as held. Raises CuassayError where
        the reference fails on its members.
        """
        problem = self._trial.problem
        failed: set[int] = set()
        for base in self._bases:
            for law, answers in self._laws(relation, base, guessed=False):
                if not holds_exactly(law, answers):
                    failed.add(law.output)
        return ", ".join(f"output '{problem.outputs[p].name}'" for p in sorted(failed))

    def _obeyed(self, guess: Relation) -> set[int]:
        obeyed: set[int] | None = None
        for base in self._bases:
            verdicts: dict[int, bool] = {}
            for law, answers in self._laws(guess, base, guessed=True):
                if verdicts.get(law.output, True) and (obeyed is None or law.output in obeyed):
                    verdicts[law.output] = holds_exactly(law, answers)
            here = {position for position, good in verdicts.items() if good}
            obeyed = here if obeyed is None else obeyed & here
            if not obeyed:
                return set()
        return obeyed or set()

    def _laws(
        self, relation: Relation, base: Case, *, guessed: bool
    ) -> Iterator[tuple[Law, list[Sequence[Tensor]]]]:
        problem, limit = self._trial.problem, element_limit(self._trial)
        cases = members(problem, relation, base, limit=limit)
        if guessed and isinstance(relation, RowsIndependent):
            # Slices that sum over the axis obey any order of it: fewer slices tell. The reference
            # alone is called, so that sizes need not be promised to anybody.
            axis, size = relation.axis, base.axes[relation.axis]
            if all(case.axes[axis] == size for case in cases):
                cases = members(problem, relation, base, limit=limit, promised=False)
            if all(case.axes[axis] == size for case in cases):
                return
        found = laws(problem, relation, cases)
        if found:
            answers: list[Sequence[Tensor]] = [self._exact(case) for case in cases]
            yield from ((law, answers) for law in found)

    def _exact(self, case: Case) -> tuple[Tensor, ...]:
        key = repr(dataclasses.replace(case, label=""))
        if key not in self._answers:
            self._answers[key] = self._trial.exact(case)
        return self._answers[key]

    def _readers(self, name: str) -> frozenset[int]:
        """Return the outputs that move with an input: of the others every law is trivial."""
        from cuassay.inputs.fills import default_fill

        if name not in self._reads and self._bases:
            base = self._bases[0]
            spec = self._trial.problem.input(name)
            assert isinstance(spec, TensorSpec)
            fill = base.fills.get(name) or default_fill(spec)
            other = Fill(kind=fill.kind, parameters={**fill.parameters, "salt": 7})
            moved = dataclasses.replace(base, fills={**base.fills, name: other})
            pairs = zip(self._exact(base), self._exact(moved), strict=True)
            self._reads[name] = frozenset(
                position for position, (a, b) in enumerate(pairs) if not bool((a == b).all())
            )
        return self._reads.get(name, frozenset())


def guesses(problem: Problem) -> tuple[tuple[Relation, ...], ...]:
    """Return everything worth trying, one tuple a kind, the most telling kinds first."""
    axes = [axis for axis in _axes(problem) if plain_axis(problem, axis)]
    reals = [
        spec
        for spec in tensor_inputs(problem)
        if isinstance(spec.domain, Real)
        and spec.domain.low is None
        and spec.domain.high is None
        and spec.dtype.is_liftable
        and spec.name not in problem.built_state
    ]
    free = [spec.name for spec in reals]
    kinds: tuple[Sequence[Relation], ...] = (
        [RowsIndependent(axis=axis) for axis in axes],
        [AdditiveOver(axis=axis, mean=mean) for axis in axes for mean in (False, True)],
        [LinearIn(input=name) for name in free],
        [
            ShiftInvariant(input=spec.name, axis=axis)
            for spec in reals
            for axis in dict.fromkeys(reversed(spec.shape))
            if spec.shape.count(axis) == 1
        ],
        [Conserves(input=name) for name in free],
        [
            RowsSumToOne(output=spec.name, axis=axis)
            for spec in problem.outputs
            for axis in dict.fromkeys(reversed(spec.shape))
            if spec.dtype.is_liftable and spec.shape.count(axis) == 1
        ],
        [PrefixStable(axis=axis) for axis in axes],
        [PermutationEquivariant(axis=axis) for axis in axes],
        [Homogeneous(input=name, degree=degree) for name in free for degree in _DEGREES],
        [DuplicatesAgree(axis=axis) for axis in axes],
    )
    return tuple(tuple(kind) for kind in kinds)


def _axes(problem: Problem) -> list[str]:
    """Return the axes that are a dimension of an input, those that vary first."""
    used = dict.fromkeys(name for spec in tensor_inputs(problem) for name in spec.shape)
    named = {axis.name for axis in problem.axes if not isinstance(axis, ExprAxis)}
    varying = {axis.name for axis in problem.var_axes()}
    return sorted((axis for axis in used if axis in named), key=lambda axis: axis not in varying)
