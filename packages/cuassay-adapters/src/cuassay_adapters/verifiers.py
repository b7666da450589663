"""verifiers (Prime Intellect): a task whose reward is a verdict, and a taskset of such tasks.

    class Kernels(vf.Taskset[KernelTask, vf.TasksetConfig]):
        def load(self):
            yield kernel_task("rmsnorm", prompt="Write kernel.py for rmsnorm.", shaped=True)

The last fenced block of the last reply is the kernel. Interface: verifiers.v1, 0.4.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import verifiers.v1 as vf

from cuassay_adapters.reward import KernelReward


class KernelData(vf.TaskData):
    """A prompt, the problem that its answer is judged against, and how."""

    problem: str
    shaped: bool = False
    profile: str = "quick"
    device: str | None = None
    budget_s: float = 120.0


class KernelTask(vf.Task[KernelData]):
    """Scores the kernel in the last reply, outside the agent's runtime."""

    @vf.reward(weight=1.0)
    async def kernel(self, task: KernelData, trace: vf.Trace[Any, Any, Any]) -> float:
        """Return the reward: 1 for an accepted kernel; less, if shaped, for one that came near.

        The stage that it reached is noted in the trace.
        """
        judge = _judge(task.shaped, task.profile, task.device, task.budget_s)
        stage = await asyncio.to_thread(judge.stage, trace.last_reply, problem=task.problem)
        trace.info["cuassay_stage"] = stage.value
        return judge.scored(stage)


def kernel_task(problem: str, prompt: str, **fields: Any) -> KernelTask:
    """Return the task of a problem; `fields` are those of KernelData."""
    return KernelTask(KernelData(problem=problem, prompt=prompt, name=problem, **fields))


@functools.lru_cache(maxsize=4)
def _judge(shaped: bool, profile: str, device: str | None, budget_s: float) -> KernelReward:
    return KernelReward(shaped=shaped, profile=profile, device=device, budget_s=budget_s)
