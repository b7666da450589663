"""Answers of a candidate held against truth: nearest first, with as few runs as show it right."""

from __future__ import annotations

import dataclasses
import math
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import torch

from cuassay.checks.judgement import is_wrong
from cuassay.errors import CuassayError
from cuassay.judge.decide.structure import matched
from cuassay.judge.truths import same_bits, sizes_text
from cuassay.model import serial
from cuassay.model.case import Case
from cuassay.model.policy import policy_of
from cuassay.model.precision import Precision
from cuassay.model.trace import ResultItem
from cuassay.model.verdict import Lane
from cuassay.oracle.compare.distance import distance
from cuassay.oracle.compare.outputs import Comparison, compare, measure
from cuassay.oracle.grade import least_family
from cuassay.oracle.known_bits import KnownAnswers

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.checks.judgement import Judgement
    from cuassay.judge.domain import Knowledge
    from cuassay.judge.memory import Memory
    from cuassay.judge.timeline import Timeline
    from cuassay.judge.truths import Truths
    from cuassay.oracle.truth.make import Truth

_Answered: TypeAlias = tuple[str, tuple[ResultItem, ...]]  # of which values, and what
_ROUGH_FAILURES = 4  # more than rough truth did not explain: a kernel that full truth is made for
_BEYOND_OWN = 3  # more answers beyond the reference's own error than within it: no more are asked
_WIDTH = tuple(Precision).index  # the families in order, `strict` first
_GROSS = 0.25  # of the whole output: no rounding errs by as much where truth decides anything
_NEAR_BYTES = 1 << 27  # of answers within the reference's own error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Explained:
    """How an answer was seen to be right.

    `share` is the part of the reference's own error that it uses; None where rough truth showed
    it, with the `comparisons`.
    """

    share: float | None = None
    comparisons: tuple[Comparison, ...] = ()


class Comparing:
    """Compares what calls returned with truth, and remembers answers that are known to be right.

    `seconds` adds up the time of comparisons. `graded`: a failure of the candidate was held against
    every family of trusted kernels.
    """

    def __init__(
        self, knowledge: Knowledge, truths: Truths, memory: Memory, *, timeline: Timeline
    ) -> None:
        self._knowledge, self._truths, self._timeline = knowledge, truths, timeline
        # The run that was looked at last, and its answers that were right.
        self._right: tuple[weakref.ref[Run], dict[_Answered, _Explained]] | None = None
        self._near: KnownAnswers[bool] = KnownAnswers(_NEAR_BYTES)  # within the reference's error
        self._compared: KnownAnswers[tuple[Comparison, ...]] = KnownAnswers(_NEAR_BYTES)
        self._unexplained = 0  # answers that rough truth did not show to be right
        self._beyond_own = 0  # answers beyond the reference's own error, less those within it
        self._lowered: dict[str, Case] = {}
        self._explained_by: set[Precision] = set()  # answers right by no lesser family
        self.graded = False
        self.seconds = 0.0
        memory.may_let_go(self)

    def is_empty(self) -> bool:
        """Whether letting go frees nothing that counts: a few answers are no reason to wait."""
        return True

    def let_go(self) -> None:
        """Forget the answers that were seen before."""
        self._near = KnownAnswers(_NEAR_BYTES)
        self._compared = KnownAnswers(_NEAR_BYTES)

    def note(self, judgement: Judgement) -> None:
        """Take note of what a run of the candidate showed of the precision that it keeps."""
        self.graded = self.graded or any(map(is_wrong, judgement.comparisons))
        for case in judgement.lowered:
            self._lowered.setdefault(serial.dumps(case), case)

    @property
    def lowered(self) -> tuple[Case, ...]:
        """The cases on which a kernel passed by a family wider than `strict`, the first first."""
        return tuple(self._lowered.values())

    def near_share(self, case: Case, run: Run, items: Iterable[ResultItem]) -> float | None:
        """Return the part of the reference's own error that an answer as near to truth uses.

        None where it is not seen to be so near: ask `explains` or `compare`. Where truth is made
        already, that tells more.
        """
        key, items = self._truths.key(case), tuple(items)
        seen = self._known(run, key, items)
        if seen is not None and seen.share is not None:
            return seen.share
        if self._truths.has_any(case) or self._unexplained > _ROUGH_FAILURES:
            return None
        share = self._near_share(case, run, items)
        if share is not None:
            self._note_right(run, key, items, _Explained(share=share))
        return share

    def explains(
        self, case: Case, run: Run, items: Iterable[ResultItem]
    ) -> tuple[Comparison, ...] | None:
        """Return what shows an answer to be right without a full truth; None: ask `compare`.

        Most answers of a trial are right, and a full truth takes the reference ten times and
        more. As near to truth as the reference as written is right; else rough truth is asked.
        """
        key, items = self._truths.key(case), tuple(items)
        seen = self._known(run, key, items)
        if seen is not None:
            return seen.comparisons
        if self.near_share(case, run, items) is not None:
            return ()
        usual = self._held_as_usual(case, run, items)
        if usual is not None:
            self._note_right(run, key, items, _Explained(comparisons=usual))
            return usual
        if self._truths.has(case) or self._unexplained > _ROUGH_FAILURES:
            return None
        truth = self._truths.rough(case)
        if truth.ill_conditioned:
            return None
        with self._spent(case):
            found = _held(self._tensors(run, items, truth), truth)
        if not all(one.passed and not one.undecided for one in found):
            self._unexplained += 1
            return None
        self._note_right(run, key, items, _Explained(comparisons=found))
        return found

    def distance(
        self, case: Case, run: Run, items: Iterable[ResultItem]
    ) -> tuple[float, float] | None:
        """Return how far an answer is from the reference's as written; see `compare.distance`.

        None where that says nothing. It takes one run of the reference.
        """
        with self._truths.spent(f"as written, {sizes_text(case)}"):
            written = self._truths.as_written(list(self._truths.inputs(case).values()))
        shapes = [tuple(one.shape) for one in written]
        with self._spent(case):
            found = matched(self._knowledge.problem, shapes, run, items)
            tensors = [one for one in found if isinstance(one, torch.Tensor)]
            return distance(tensors, written) if len(tensors) == len(written) else None

    def is_gross(self, case: Case, run: Run, items: Iterable[ResultItem]) -> bool:
        """Return whether rough truth shows that an answer is wrong whatever a kernel may round.

        It has another structure, elements that are no numbers where truth has some, or is off by a
        quarter of the whole output. A finding needs `compare`, which says how an answer is wrong.
        """
        truth = self._truths.rough(case)
        if truth.ill_conditioned:
            return False
        with self._spent(case):
            found = _held(self._tensors(run, items, truth), truth)
        return any(
            one.mismatch or one.relative_error > _GROSS or one.is_of_other_class
            for one in found
            if is_wrong(one)
        )

    def compare(
        self,
        case: Case,
        run: Run,
        items: Iterable[ResultItem],
        *,
        precision: Precision | None = None,
        grade: bool = False,
    ) -> tuple[Comparison, ...]:
        """Compare what a call on `case` returned with truth, one Comparison per output.

        With the least family of trusted kernels that the policy accepts and that explains the
        error, or with the one that explained earlier answers; with `precision` by that family
        alone. With `grade` the first failure beyond the policy is held against all families: what
        explains it is the kernel's grade.
        """
        items = tuple(items)
        usual = None if precision else self._held_as_usual(case, run, items)
        if usual is not None:
            return usual
        truth = self._truths.truth(case, precision or Precision.STRICT)
        key = f"{self._truths.key(case)} {precision} {grade}"

        def hold(tensors: Sequence[torch.Tensor | str]) -> tuple[Comparison, ...]:
            with self._spent(case):
                found = _held(tensors, truth)
            if precision is not None:
                return found
            started, made_s = time.perf_counter(), self._truths.seconds
            found = self._least(case, tensors, found, grade=grade)
            if all(one.passed and not one.undecided for one in found):
                self._explained_by.add(max((one.precision for one in found), key=_WIDTH))
            self.seconds += time.perf_counter() - started - (self._truths.seconds - made_s)
            return found

        return self._held_once(case, run, items, truth=truth, key=key, hold=hold)

    def _held_once(
        self,
        case: Case,
        run: Run,
        items: tuple[ResultItem, ...],
        *,
        truth: Truth,
        key: str,
        hold: Callable[[Sequence[torch.Tensor | str]], tuple[Comparison, ...]],
    ) -> tuple[Comparison, ...]:
        """Return what `hold` makes of an answer, or made of the same bits under this `key`.

        Calls under many circumstances give the same bits, which need not be compared again.
        """
        with self._spent(case):
            tensors = self._tensors(run, items, truth)
            there = [
                got.to(output.value.device)
                for got, output in zip(tensors, truth.outputs, strict=True)
                if isinstance(got, torch.Tensor)
            ]
            whole = len(there) == len(tensors)  # else an output is no tensor
            known = self._compared.find(key, there) if whole else None
        if known is not None:
            return known
        found = hold(tensors)
        if whole:
            self._compared.add(key, there, found)
        return found

    def _held_as_usual(
        self, case: Case, run: Run, items: tuple[ResultItem, ...]
    ) -> tuple[Comparison, ...] | None:
        """Return the comparisons with the wider family that explained earlier answers.

        None where there is none or where it does not explain this answer: then the least one that
        does is looked for, which takes a truth a family.
        """
        family = self._usual
        if family is Precision.STRICT:
            return None
        truth, key = self._truths.truth(case, family), f"{self._truths.key(case)} first {family}"

        def hold(tensors: Sequence[torch.Tensor | str]) -> tuple[Comparison, ...]:
            with self._spent(case):
                held = _held(tensors, truth)
            return tuple(dataclasses.replace(one, precision=family) for one in held)

        found = self._held_once(case, run, items, truth=truth, key=key, hold=hold)
        return found if all(one.passed and not one.undecided for one in found) else None

    @property
    def _usual(self) -> Precision:
        """The wider family that explained earlier answers, `strict` where none did."""
        return max(self._explained_by, key=_WIDTH, default=Precision.STRICT)

    def ill_conditioned(self, case: Case, first: Callable[[Case], Truth]) -> str:
        """Return why no output of a case can be judged, by its `first` truth, if so.

        Where a wider family is asked for answers first, its truth is made anyway: what decides
        something beside the larger errors of that family does so beside those of `strict`.
        """
        family = self._usual
        if family is not Precision.STRICT and not self._truths.truth(case, family).ill_conditioned:
            return ""
        return first(case).ill_conditioned

    def _known(self, run: Run, key: str, items: tuple[ResultItem, ...]) -> _Explained | None:
        if self._right is None or self._right[0]() is not run:
            return None
        return self._right[1].get((key, items))

    def _note_right(
        self, run: Run, key: str, items: tuple[ResultItem, ...], explained: _Explained
    ) -> None:
        if self._right is None or self._right[0]() is not run:
            self._right = (weakref.ref(run), {})
        self._right[1][key, items] = explained

    def _near_share(self, case: Case, run: Run, items: Iterable[ResultItem]) -> float | None:
        """Return the part of its own error that an answer as near as the reference's uses.

        None beyond it; 0 for what has bits that were so near, or the reference's own: a copy, a
        gather, a kernel that calls the same functions.
        """
        if self._beyond_own >= _BEYOND_OWN:
            return None
        share, key, problem = math.inf, self._truths.key(case), self._knowledge.problem
        got: list[torch.Tensor] | None = None

        def take(shapes: Iterable[Sequence[int]]) -> bool:
            """Look at the answer's tensors; return whether it has nothing else."""
            nonlocal got
            found = matched(problem, [tuple(shape) for shape in shapes], run, items)
            tensors = [one for one in found if isinstance(one, torch.Tensor)]
            got = tensors if len(tensors) == len(found) else None
            return got is not None

        def has_bits_of(written: Sequence[torch.Tensor]) -> bool:
            return take(one.shape for one in written) and all(
                same_bits(one.to(own.device), own)
                for one, own in zip(got or (), written, strict=True)
            )

        if shapes := self._near.shapes(key):
            with self._timeline.span(Lane.COMPARE, f"bits, {sizes_text(case)}"):
                share = 0.0 if take(shapes) and self._near.find(key, got or ()) else math.inf
        if share:
            self._truths.make_room(case)
            with self._truths.spent(f"its own error, {sizes_text(case)}"):
                owns = self._truths.own_errors(case, suffices=has_bits_of)
                if take(own.written.shape for own in owns):
                    share = 0.0
                    for one, own in zip(got or (), owns, strict=True):
                        share = max(share, own.share(one))
                        if share > 1.0:
                            break
            if share <= 1.0:
                self._near.add(key, got or (), True)
        near = share <= 1.0
        self._beyond_own = max(0, self._beyond_own - 1) if near else self._beyond_own + 1
        return share if near else None

    def _tensors(
        self, run: Run, items: Iterable[ResultItem], truth: Truth
    ) -> list[torch.Tensor | str]:
        shapes = [tuple(output.value.shape) for output in truth.outputs]
        return list(matched(self._knowledge.problem, shapes, run, items))

    def _least(
        self,
        case: Case,
        tensors: Sequence[torch.Tensor | str],
        found: tuple[Comparison, ...],
        *,
        grade: bool,
    ) -> tuple[Comparison, ...]:
        """Return the comparisons with the least families that explain them."""
        accepted = policy_of(self._knowledge.problem).families
        least = [self._in_family(case, tensors, found, n, accepted) for n in range(len(found))]
        failed = [n for n, one in enumerate(least) if is_wrong(one)]
        if failed and grade and accepted != tuple(Precision):
            try:
                beyond = self._in_family(case, tensors, found, failed[0], tuple(Precision))
            except (CuassayError, RuntimeError):  # a grade stands beside the verdict
                return tuple(least)
            least[failed[0]] = dataclasses.replace(least[failed[0]], precision=beyond.precision)
        return tuple(least)

    def _in_family(
        self,
        case: Case,
        tensors: Sequence[torch.Tensor | str],
        found: Sequence[Comparison],
        number: int,
        families: Sequence[Precision],
    ) -> Comparison:
        got = tensors[number]
        if isinstance(got, str):
            return found[number]

        # What is wrong of an ill-conditioned output is so beyond reason, in a wider family too.
        aside = self._truths.truth(case).outputs[number].ill_conditioned
        judged = compare if aside else measure

        def measured(family: Precision) -> Comparison:
            output = self._truths.truth(case, family).outputs[number]
            made = judged(got, output)
            if made.passed and output.ill_conditioned:
                return dataclasses.replace(made, share=0.0, undecided=output.ill_conditioned)
            return made

        return least_family(found[number], measured, families)

    @contextmanager
    def _spent(self, case: Case) -> Iterator[None]:
        started = time.perf_counter()
        try:
            with self._timeline.span(Lane.COMPARE, sizes_text(case)):
                yield
        finally:
            self.seconds += time.perf_counter() - started


def _held(tensors: Iterable[torch.Tensor | str], truth: Truth) -> tuple[Comparison, ...]:
    """Hold every output, or why there is none, against truth."""
    return tuple(
        Comparison(output=output.name, passed=False, share=math.inf, mismatch=got)
        if isinstance(got, str)
        else compare(got, output)
        for got, output in zip(tensors, truth.outputs, strict=True)
    )
