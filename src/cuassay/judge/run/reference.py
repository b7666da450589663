"""The reference's processes: all lanes of a trial share them, and it runs only where one fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from cuassay.judge.decide.control import Control
from cuassay.judge.decide.examine import judge_scenario

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.run.executor import Executor
    from cuassay.judge.trial import JudgeTrial
    from cuassay.model.scenario import Scenario


class ReferenceRunner:
    """Runs the reference as a candidate.

    Where a case takes most of a GPU, the processes of the `candidate` end before, and its own after
    it. `compiled` returns what runs the compiled reference, whose process begins with the first
    call.
    """

    def __init__(
        self,
        trial: JudgeTrial,
        executor: Executor,
        candidate: Executor,
        *,
        compiled: Callable[[], Executor],
    ) -> None:
        self.executor, self._candidate = executor, candidate
        self._memory = trial.memory
        self.compiled = cache(compiled)
        self.control = Control(trial, self._run, partial(judge_scenario, trial))

    async def _run(self, scenario: Scenario) -> Run:
        if not self._memory.is_large:
            return await self.executor.run(scenario)
        self._candidate.let_go()
        run = await self.executor.run(scenario)
        self.executor.let_go()
        return run

    def begin(self) -> Executor:
        """Start a process that begins to build, where none is there; return what runs it."""
        self.executor.pool.begin()
        return self.executor
