"""What is learnt of a foreign problem by experiment: its inputs, and the sizes that it accepts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cuassay.contract.accept import Acceptor
from cuassay.contract.facts import Evidence, Known, SizeFact, Source, StepOfSize, Tried
from cuassay.contract.observe import without_contradicted
from cuassay.contract.ragged import with_ragged
from cuassay.contract.sizes import learn_sizes
from cuassay.contract.uses import with_uses
from cuassay.errors import CuassayError
from cuassay.judge.domain import Domain, Knowledge, Learnt, Lesson, RefusedWithData
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.domain import Opaque
from cuassay.model.problem import Problem, VarAxis

if TYPE_CHECKING:
    from cuassay.formats.execute import LoadedReference
    from cuassay.judge.memory import Memory
    from cuassay.judge.truths import Truths

_RAISED = (2, 4, 8)  # by which the least size of an axis is raised where it decides nothing


class Learning:
    """Replaces the domain by what runs of the reference show.

    `plan_small` plans small cases in the domain that is in force. `rounds` counts how often what
    was settled was given up: plans of another round are not kept.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        reference: LoadedReference,
        memory: Memory,
        truths: Truths,
        *,
        device: Device,
        plan_small: Callable[[], Sequence[Case]],
    ) -> None:
        self._knowledge, self._reference = knowledge, reference
        self._memory, self._truths, self._device = memory, truths, device
        self._plan_small = plan_small
        # What the author of a problem says of its inputs holds.
        self._uses_known = knowledge.problem.origin == "native"
        self.acceptor: Acceptor | None = None  # of a foreign problem, once sizes were learnt
        self.rounds = 0

    @property
    def domain(self) -> Domain:
        """Where cases are planned now."""
        return self._knowledge.domain

    @property
    def tried(self) -> tuple[Tried, ...]:
        """Sizes and values that were tried on the reference, and why it refused some."""
        return () if self.acceptor is None else tuple(self.acceptor.tried)

    def replan(self, lesson: Lesson) -> None:
        """Plan as `domain.replan` says from now on."""
        self._knowledge.learn(lesson)
        if self.acceptor is not None:
            self.acceptor.problem = self.domain.problem

    def take(self, problem: Problem, facts: tuple[Known, ...]) -> None:
        """Plan for this problem, of which these facts are known, from now on."""
        self.replan(Learnt(problem=problem, facts=facts))

    def settle(self, case: Case) -> Case | None:
        """Return a case as the reference accepts it; None where it refuses it."""
        return case if self.acceptor is None else self.acceptor.settle(case)

    def uses(self) -> None:
        """Run the reference to see what it does with its inputs, once."""
        if not self._uses_known:
            self._uses_known = True
            problem, used = with_uses(self.domain.problem, self._reference, device=self._device)
            self.take(problem, (*self.domain.facts, *used))

    def values(self, case: Case, *, again_seed: int) -> None:
        """Learn what inputs are from the problem's own values of a case.

        What they seemed to be is given up where these contradict it, also under `again_seed`.
        """
        values, before = self._truths.inputs(case), self.domain
        if before.problem.origin == "native":
            return
        other = dataclasses.replace(case, seed=again_seed)
        problem, found = without_contradicted(
            before.problem, values, case.axes, again=lambda: self._truths.inputs(other)
        )
        if any(isinstance(spec.domain, Opaque) for spec in problem.inputs):
            looks = (values, self._truths.inputs(other))
            problem, ragged = with_ragged(
                problem,
                looks,
                case.axes,
                run=lambda given: self._truths.as_written(list(given.values())),
                seed=again_seed,
            )
            found = (*found, *ragged)
        if problem != before.problem:
            self.take(problem, (*before.facts, *found))

    def sizes(self) -> None:
        """Find out by experiment which sizes the reference of a foreign problem accepts, once.

        Small sizes of ours are tried first: where the reference takes them nothing else has to
        be learnt.
        """
        if self.acceptor is not None or self.domain.problem.origin == "native":
            return
        self.uses()
        self.acceptor = Acceptor(
            self.domain.problem,
            self._reference,
            device=self._device,
            relieve=self._memory.relieve_for,
        )
        self._learn_sizes(self.acceptor)

    def sizes_with_data(self) -> bool:
        """Learn sizes by runs with data, where runs without accepted what the reference refuses.

        Returns whether that is new.
        """
        if self.acceptor is None or not self.acceptor.ask_with_data():
            return False
        self.rounds += 1
        self.replan(RefusedWithData())
        self._learn_sizes(self.acceptor)
        return True

    def every_size(self) -> None:
        """Learn every axis, needed for a trial or not."""
        if self.acceptor is not None and not any(
            isinstance(known.fact, SizeFact) for known in self.domain.facts
        ):
            learnt = learn_sizes(self.acceptor)[1]
            self.take(self.domain.problem, (*learnt, *self.domain.facts))

    def _learn_sizes(self, acceptor: Acceptor) -> None:
        wished = [case for case in self._plan_small() if not case.benchmark]
        if wished and all(acceptor.settle(case) is not None for case in wished):
            return
        learnt, sizes = learn_sizes(acceptor)
        self.take(learnt, (*self.domain.facts, *sizes))
        # Raise the least size of axes where the small cases would decide nothing. A reference
        # accepts groups of one channel, say, though what it normalises there is zero divided by
        # zero. Of the axes that have a step, the first whose double helps is taken.
        problem, facts = self.domain.problem, self.domain.facts
        for factor in _RAISED if self._undecided(problem) else ():
            for known in facts:
                if not isinstance(known.fact, StepOfSize):
                    continue
                least = factor * known.fact.minimum
                axes = tuple(
                    dataclasses.replace(axis, minimum=least)
                    if isinstance(axis, VarAxis) and axis.name == known.fact.axis
                    else axis
                    for axis in problem.axes
                )
                raised = dataclasses.replace(problem, axes=axes)
                if not self._undecided(raised):
                    fact = dataclasses.replace(known.fact, minimum=least)
                    text = "below it trusted implementations disagree by as much as they return"
                    evidence = Evidence(source=Source.TRIALS, count=1, text=text)
                    said = Known(fact=fact, evidence=evidence)
                    self.take(raised, tuple(said if one is known else one for one in facts))
                    return

    def _undecided(self, problem: Problem) -> bool:
        """Whether truth of the first small case of a problem is ill-conditioned."""
        before = self.domain
        self.take(problem, before.facts)
        try:
            settled = [self.settle(case) for case in self._plan_small()[:1]]
            return any(
                case is not None and bool(self._truths.rough(case).ill_conditioned)
                for case in settled
            )
        except CuassayError:
            return False  # what a reference refuses is found out elsewhere
        finally:
            self.take(before.problem, before.facts)
