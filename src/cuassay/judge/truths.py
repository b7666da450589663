"""What the reference gives on a case: inputs, answers, gradients, truth and achievable error."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from cuassay.inputs.case_inputs import case_inputs
from cuassay.inputs.geometry import elements, tensor_inputs
from cuassay.inputs.seeds import derive
from cuassay.judge.decide import gradients
from cuassay.judge.drawn import GeneratedInputs
from cuassay.judge.look import Look, container_in, look_at
from cuassay.judge.plan.states import loop_states
from cuassay.model import serial
from cuassay.model.axes import evaluate, resolve, shape_of
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.precision import Precision
from cuassay.model.problem import Scalar
from cuassay.model.steps import Upstream
from cuassay.model.verdict import Lane
from cuassay.oracle.bits import raw_bytes
from cuassay.oracle.lift.run import run_as_written
from cuassay.oracle.truth.make import FirstRuns, ReferenceRunner, Truth, draws_as_one, make_truth
from cuassay.oracle.truth.memory import truth_bytes
from cuassay.oracle.truth.own_error import OwnError, own_errors
from cuassay.oracle.truth.precision import family_of

if TYPE_CHECKING:
    from cuassay.formats.execute import LoadedReference
    from cuassay.judge.domain import Knowledge
    from cuassay.judge.memory import Memory
    from cuassay.judge.timeline import Timeline

_ROUGH_DRAWS = 2
_HEAVY_S = 1.0  # of a truth, by count
_ALWAYS_KEPT = 8  # of the planned memory one part in so many holds truths whatever a case needs
_CACHE_SHARE = 4  # of the planned GPU memory one part in four holds truths made before
_OWN_BYTES = 1 << 28  # of the reference's own errors that are kept
_FIRST_BYTES = 1 << 28  # of the runs with which truths of one case begin, of all cases
_CACHE_BYTES = {"cpu": 2 << 30, "cuda": 16 << 30}
_TEXTS = 256  # cases whose values are known as text


class _FirstRunsOfCases:
    """The runs with which truths and own errors of a case begin, as far as they are small."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, FirstRuns] = OrderedDict()
        self._bytes: dict[str, int] = {}  # of each, when it was looked at last
        self._total_bytes = 0

    def of(self, key: str) -> FirstRuns:
        """Return those of one case, made or not."""
        self._kept.setdefault(key, FirstRuns())
        self._kept.move_to_end(key)
        return self._kept[key]

    def drop(self) -> None:
        """Forget the oldest until all others are small beside what a trial holds.

        Only those of the case that was asked for last have grown.
        """
        if self._kept:
            key, last = next(reversed(self._kept.items()))
            self._total_bytes += last.nbytes - self._bytes.get(key, 0)
            self._bytes[key] = last.nbytes
        while self._total_bytes > _FIRST_BYTES:
            key, _ = self._kept.popitem(last=False)
            self._total_bytes -= self._bytes.pop(key, 0)

    def is_empty(self) -> bool:
        """Whether nothing is kept."""
        return not self._kept

    def let_go(self) -> None:
        """Forget what is kept."""
        self._kept.clear()
        self._bytes.clear()
        self._total_bytes = 0


@dataclasses.dataclass(frozen=True, slots=True)
class TruthCache:
    """What was made of a problem's cases on one device, by a case's values and seed as JSON."""

    truths: OrderedDict[str, Truth] = dataclasses.field(default_factory=OrderedDict)
    own_errors: OrderedDict[str, tuple[OwnError, ...]] = dataclasses.field(
        default_factory=OrderedDict
    )
    firsts: _FirstRunsOfCases = dataclasses.field(default_factory=_FirstRunsOfCases)


class Truths:
    """Runs the reference on cases, in float64 and as written, and keeps what takes long to make.

    `cache` holds what a trial of another candidate of the same problem on the same device made.
    `seconds` adds up the time of the runs, `kinds` says why truth is not float64, by its kind.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        reference: LoadedReference,
        memory: Memory,
        *,
        device: Device,
        timeline: Timeline,
        cache: TruthCache | None = None,
    ) -> None:
        self._knowledge, self._reference, self._memory = knowledge, reference, memory
        self._device, self._timeline = device, timeline
        kept = TruthCache() if cache is None else cache
        self.cache, self._owns, self._firsts = kept.truths, kept.own_errors, kept.firsts
        self._looks: dict[str, Look] = {}
        self._texts: dict[int, tuple[Case, str]] = {}
        self._deterministic: bool | None = None
        self.kinds: dict[str, str] = {}
        self.seconds = 0.0
        self._generated = GeneratedInputs(planned_bytes=memory.room.bytes)
        memory.may_let_go(self)
        memory.may_let_go(self._generated)

    def is_empty(self) -> bool:
        """Whether no truth is kept, and none of the reference's own errors."""
        return not self.cache and not self._owns and self._firsts.is_empty()

    def let_go(self) -> None:
        """Forget what is kept."""
        self.cache.clear()
        self._owns.clear()
        self._firsts.let_go()

    def inputs(self, case: Case) -> Mapping[str, torch.Tensor | Scalar]:
        """Return fresh inputs of a case, in the order of the problem's inputs."""
        problem = self._knowledge.problem
        if case.state is not None:
            return loop_states().inputs(problem, case.state, self._device)

        def make() -> Mapping[str, torch.Tensor | Scalar]:
            return case_inputs(problem, case, device=self._device, reference=self._reference)

        return self._memory.capped(lambda: self._generated.inputs(problem, case, make))

    def as_written(
        self, values: Sequence[torch.Tensor | Scalar], *, call: Callable[..., object] | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Run the reference as written, by `call` if given; its outputs in the problem's order."""
        return self._memory.capped(
            lambda: run_as_written(call or self._reference.call, values, names=self._outputs)
        )

    def repeats(self, case: Case) -> bool:
        """Whether the reference gives the same bits twice on the inputs of `case`, now."""
        values = list(self.inputs(case).values())
        twice = [self.as_written(values) for _ in range(2)]
        return all(same_bits(*pair) for pair in zip(*twice, strict=True))

    def is_deterministic(self, case: Case) -> bool:
        """Whether the reference gave the same bits twice, asked once in a trial."""
        if self._deterministic is None:
            self._deterministic = self.repeats(case)
        return self._deterministic

    def exact(self, case: Case) -> tuple[torch.Tensor, ...]:
        """Return what the reference gives in float64, in the problem's order: one run.

        A truth of the case begins with it.
        """
        first = self._firsts.of(self.key(case))
        if first.plain is not None:
            return first.plain
        values, seed = list(self.inputs(case).values()), derive(case.seed, "truth")
        call = self._reference.call
        made = self._memory.capped(
            lambda: ReferenceRunner(call, values, self._outputs, seed, first=first).plain()
        )
        self._firsts.drop()
        return made

    def container(self, case: Case) -> str:
        """Return in what the reference returns its outputs on a case (see `Returned`).

        Without hooks: there are references that torch lets nobody watch.
        """
        known = self._looks.get(self.key(case))
        if known is not None:
            return known.container
        values = list(self.inputs(case).values())
        return container_in(self._reference.call, lambda call: self.as_written(values, call=call))

    def look(self, case: Case) -> Look:
        """Run the reference once as written, watched, and keep what that shows of a case.

        Raises ReferenceError_ for the reference's own exceptions.
        """
        key = self.key(case)
        if key not in self._looks:
            values = list(self.inputs(case).values())
            self._looks[key] = look_at(
                self._reference.call, values, lambda call: self.as_written(values, call=call)
            )
        return self._looks[key]

    def truth(self, case: Case, precision: Precision = Precision.STRICT) -> Truth:
        """Return truth with the achievable error of a family of trusted kernels.

        Raises CannotJudgeError.
        """
        return self._of(case, keyed(self.key(case), precision), precision=precision)

    def rough(self, case: Case) -> Truth:
        """Return truth with the fewest draws, or the full one where that is made or costs no more.

        Its achievable error is as large as that of the full one, and less certain.
        """
        key, problem = self.key(case), self._knowledge.problem
        shapes = (shape_of(spec.shape, case.axes) for spec in tensor_inputs(problem))
        of_inputs = sum(map(math.prod, shapes))
        if key in self.cache or draws_as_one(
            self._reference.call,
            problem.outputs,
            of_inputs=of_inputs,
            of_outputs=elements(problem, case.axes) - of_inputs,
            device=self._device,
            budget_bytes=self._memory.room.bytes,
        ):
            return self._of(case, key)
        return self._of(case, _rough(key), draws=_ROUGH_DRAWS)

    def first(self, case: Case) -> Truth:
        """Return the truth that tells whether a case decides anything; rough where runs are long.

        Rough truth takes half as long, and what it shows to be right needs no other.
        """
        heavy = self._memory.room.truth_s(self._knowledge.problem, case) > _HEAVY_S
        return self.rough(case) if heavy else self.truth(case)

    def decides(self, case: Case) -> bool:
        """Whether truth of a case decides anything; where rough truth says no, it does not."""
        known = self.cache.get(_rough(self.key(case)))
        if known is not None and known.ill_conditioned:
            return False
        return not self.first(case).ill_conditioned

    def has(self, case: Case) -> bool:
        """Whether truth is made already, with all its draws."""
        return self.key(case) in self.cache

    def has_any(self, case: Case) -> bool:
        """Whether truth is made already, with all its draws or the fewest."""
        return self.has(case) or _rough(self.key(case)) in self.cache

    def moves(self, first: Case, second: Case) -> bool:
        """Whether the reference's answers to two cases differ by far more than it errs itself.

        A wrong False or True costs a plan some of its power, and no verdict: no truth is made.
        """
        with self.spent(f"what moves it, {sizes_text(second)}"):
            before, after = self.own_errors(first), self.own_errors(second)
            return any(old.is_far_from(new) for old, new in zip(before, after, strict=True))

    def own_errors(
        self,
        case: Case,
        *,
        suffices: Callable[[Sequence[torch.Tensor]], bool] = lambda written: False,
    ) -> tuple[OwnError, ...]:
        """Return the reference's own errors on a case, kept where they are small.

        Of one case a trial asks for many answers: what earlier calls returned is looked at again.
        Where what the reference returns `suffices`, that alone.
        """
        key = self.key(case)
        if key in self._owns:
            self._owns.move_to_end(key)
            return self._owns[key]
        is_enough: list[bool] = []

        def noted(written: Sequence[torch.Tensor]) -> bool:
            is_enough.append(suffices(written))
            return is_enough[-1]

        problem = self._knowledge.problem
        made = self._memory.capped(
            lambda: own_errors(
                self._reference.call,
                list(self.inputs(case).values()),
                problem.outputs,
                seed=derive(case.seed, "truth"),
                accumulation=problem.accumulation,
                suffices=noted,
                first=self._firsts.of(key),
            )
        )
        self._firsts.drop()
        if any(is_enough):
            return made
        self._owns[key] = made
        while sum(own.nbytes for owns in self._owns.values() for own in owns) > _OWN_BYTES:
            self._owns.popitem(last=False)
        return made

    def gradients(
        self,
        case: Case,
        outputs: Sequence[str],
        *,
        upstream: Upstream,
        seed: int,
        precision: Precision = Precision.STRICT,
    ) -> Truth:
        """Return the right gradients of a case's floating inputs (cached), each `grad_<input>`.

        Those of `outputs`, with upstream gradients as a Backward step draws them. Raises
        CannotJudgeError; NothingToCheckError where the reference cannot be differentiated.
        """
        wanted = f"gradients of {' '.join(outputs)} {upstream is Upstream.ONES} {seed}"
        key = keyed(f"{self.key(case)} {wanted}", precision)
        if key in self.cache:
            return self.cache[key]
        return self._make(
            key,
            case,
            f"gradients, {sizes_text(case)}",
            lambda: gradients.truth_of(
                self._knowledge.problem,
                self._reference.call,
                case,
                self.inputs(case),
                outputs=outputs,
                upstream=upstream,
                seed=seed,
                precision=precision,
            ),
        )

    def dependence(self, case: Case) -> Mapping[str, torch.Tensor]:
        """Return, by floating input, a gradient that is 0 where no floating output depends on it.

        Raises as `gradients`.
        """
        return self._memory.capped(
            lambda: gradients.dependence(
                self._knowledge.problem, self._reference.differentiable, case, self.inputs(case)
            )
        )

    def answers(self, case: Case) -> list[torch.Tensor]:
        """Return the right answers of a case in the outputs' own dtypes."""
        specs = self._knowledge.problem.outputs
        return [
            output.value.to(getattr(torch, spec.dtype.value))
            for output, spec in zip(self.rough(case).outputs, specs, strict=True)
        ]

    def key(self, case: Case) -> str:
        """Return what decides a case's values as text: cases that differ in words share truth.

        Every look at an answer asks for it, and a case that lists its values is long.
        """
        known = self._texts.get(id(case))
        if known is None:
            plain = dataclasses.replace(case, label="", in_domain=True, fact="", related=())
            if len(self._texts) >= _TEXTS:
                self._texts.clear()
            # With the case, so that its id stays its own.
            known = self._texts[id(case)] = (case, serial.dumps(plain))
        return known[1]

    def make_room(self, case: Case) -> None:
        """Let go of kept truths until one of `case` has room beside the others.

        Those that are next to nothing beside their inputs stay: what a case holds that fills the
        plan by itself is weights, and each of its truths takes long.
        """
        problem, planned = self._knowledge.problem, self._memory.room
        room = planned.bytes
        if room is None or not self.cache or planned.is_small(problem, case):
            return
        left = max(room - planned.need(problem, case).judge, room // _ALWAYS_KEPT)
        while self.cache and self._kept_bytes > left:
            self.cache.popitem(last=False)

    @contextmanager
    def spent(self, what: str) -> Iterator[None]:
        """Count the time of this block as that of truths."""
        started = time.perf_counter()
        try:
            with self._timeline.span(Lane.TRUTH, what):
                yield
        finally:
            self.seconds += time.perf_counter() - started

    def _of(
        self,
        case: Case,
        key: str,
        *,
        precision: Precision = Precision.STRICT,
        draws: int | None = None,
    ) -> Truth:
        if key in self.cache:
            self.cache.move_to_end(key)
            truth = self.cache[key]
        else:
            truth = self._make(
                key, case, sizes_text(case), lambda: self._drawn(case, precision, draws)
            )
        self.kinds[truth.kind] = truth.reason
        return truth

    def _make(self, key: str, case: Case, what: str, make: Callable[[], Truth]) -> Truth:
        """Make a truth and keep it."""
        started = time.perf_counter()
        self.make_room(case)
        if self._memory.needs_all:  # as the truths before it
            self._memory.end_idle()
        with self._timeline.span(Lane.TRUTH, what):
            truth = self.cache[key] = self._memory.capped(make)
        self._firsts.drop()
        self.seconds += time.perf_counter() - started
        limit = _CACHE_BYTES[self._device.kind]
        if self._memory.gib is not None:
            limit = min(limit, int(self._memory.gib / _CACHE_SHARE * 2**30))
        while len(self.cache) > 1 and self._kept_bytes > limit:
            self.cache.popitem(last=False)
        return truth

    def _drawn(self, case: Case, precision: Precision, draws: int | None) -> Truth:
        inputs, problem = self.inputs(case), self._knowledge.problem
        sizes = resolve(problem.axes, case.axes)
        hits: dict[str, torch.Tensor] = {}
        for name, outputs in problem.index_inputs.items():
            ids = inputs.get(name)
            for spec in problem.outputs:
                if spec.name in outputs and isinstance(ids, torch.Tensor):
                    rows = evaluate(spec.shape[0], sizes) if spec.shape else 0
                    legal = ids[(ids >= 0) & (ids < rows)].reshape(-1).long()
                    hits[spec.name] = torch.bincount(legal, minlength=rows)
        return make_truth(
            self._reference.call,
            list(inputs.values()),
            problem.outputs,
            seed=derive(case.seed, "truth"),
            accumulation=problem.accumulation,
            draws=draws,
            index_hits=hits,
            family=family_of(precision, problem.low_type, ranks=problem.rank_count(case.axes)),
            budget_bytes=self._memory.room.bytes,
            first=self._firsts.of(self.key(case)),
        )

    @property
    def _kept_bytes(self) -> int:
        return sum(map(truth_bytes, self.cache.values()))

    @property
    def _outputs(self) -> list[str]:
        return [spec.name for spec in self._knowledge.problem.outputs]


def sizes_text(case: Case) -> str:
    """Return the sizes of a case in words."""
    return " ".join(f"{name}={size}" for name, size in case.axes.items())


def keyed(what: str, precision: Precision) -> str:
    """Return what a truth of a family is kept under."""
    return what if precision is Precision.STRICT else f"{what} {precision}"


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors have the same shape, dtype and bits."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool(torch.equal(raw_bytes(first), raw_bytes(second)))


def _rough(key: str) -> str:
    return f"{key} rough"
