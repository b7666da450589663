"""Rewards for programs that learn to write kernels, without an aid to game them.

    reward = KernelReward("rmsnorm", shaped=True, device="cpu")
    GRPOTrainer(..., reward_funcs=[reward])  # TRL: a list of completions to a list of floats
    reward.of(reply)  # verifiers, OpenEnv: one reply to one float

Sparse: 1 for ACCEPTED, else 0. Shaped: one of five numbers, which tell the stage that the kernel
reached (`stages.Stage`) and nothing else. INCONCLUSIVE earns nothing, or a policy would learn to
run out of time. Every trial draws new inputs under a secret seed after the kernel is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cuassay.closing import Closing
from cuassay.errors import UsageError
from cuassay.verifier import Result, Status, Verifier
from cuassay_adapters.stages import Stage, kept_source, kernel_in, stage_of

SPARSE: Mapping[Stage, float] = {stage: float(stage is Stage.ACCEPTED) for stage in Stage}
SHAPED: Mapping[Stage, float] = {
    **SPARSE,
    Stage.NOT_BUILT: 0.05,
    Stage.WRONG: 0.1,
    Stage.FRAGILE: 0.3,
}
_PROBLEM = "problem"  # the column of a data set that names each sample's problem


class KernelReward(Closing):
    """Judges the kernels in replies; waiting judges are shared by all calls.

    `problem` is a catalogue name or a path, None where each sample names its own in a column
    `problem`. Only trusted data may name problems: a reference is code that the judge runs.
    """

    def __init__(
        self,
        problem: str | None = None,
        *,
        shaped: bool = False,
        budget_s: float = 120.0,
        profile: str = "quick",
        device: str | None = None,
        workers: int | None = None,
    ) -> None:
        self._problem = problem
        self._table = SHAPED if shaped else SPARSE
        self._verifier = Verifier(
            workers=workers, profile=profile, device=device, budget_s=budget_s
        )
        self.__name__ = "cuassay_shaped" if shaped else "cuassay_accepted"  # trainers log it

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float]:
        """Return the reward of each completion: TRL's interface of a reward function.

        A completion is text or a list of messages; `columns` are those of the data set.
        """
        problems = columns.get(_PROBLEM) or [self._problem] * len(completions)
        replies = [_text(completion) for completion in completions]
        sources = [kernel_in(reply) for reply in replies]
        futures = [
            self._verifier.submit(kept_source("kernel.py", source), self._named(problem))
            if source
            else None
            for source, problem in zip(sources, problems, strict=True)
        ]
        return [self._table[stage_of(f.result()) if f else Stage.NOTHING] for f in futures]

    def result(self, reply: str, *, problem: str | None = None) -> Result:
        """Judge the kernel in one reply. The result is for logs; a policy must not see it."""
        source = kernel_in(reply)
        if not source:
            return Result(
                status=Status.INVALID,
                reason="the reply holds no fenced block with a kernel",
                candidate="",
                problem=problem or self._problem or "",
            )
        return self._verifier.verify(
            kept_source("kernel.py", source), self._named(problem or self._problem)
        )

    def stage(self, reply: str, *, problem: str | None = None) -> Stage:
        """Return how far the kernel in one reply came: all that a policy may hear."""
        return stage_of(self.result(reply, problem=problem))

    def of(self, reply: str, *, problem: str | None = None) -> float:
        """Return the reward of one reply."""
        return self.scored(self.stage(reply, problem=problem))

    def scored(self, stage: Stage) -> float:
        """Return the reward of a stage."""
        return self._table[stage]

    def close(self) -> None:
        """End the waiting judges."""
        self._verifier.close()

    def _named(self, problem: str | None) -> str:
        if not problem:
            raise UsageError(
                "no problem is named: give KernelReward('rmsnorm'), or a column 'problem'"
            )
        return problem


def _text(completion: Any) -> str:
    """Return the last message of a completion, or the completion as it is."""
    if isinstance(completion, str):
        return completion
    last = completion[-1]["content"] if completion else ""
    return last if isinstance(last, str) else ""
