"""OpenEnv: a rubric, and an environment in which an agent writes one kernel a step.

    environment = KernelEnvironment("rmsnorm", shaped=True, device="cpu")
    environment.reset()
    observation = environment.step(KernelAction(kernel=source))  # observation.reward, .stage

An observation holds the task and the stage that the kernel reached, and nothing of the trial.
Interface: openenv.core, 0.3 to 0.10.
"""

from __future__ import annotations

from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.rubrics import Rubric

from cuassay_adapters.reward import KernelReward
from cuassay_adapters.stages import Stage


class KernelAction(Action):
    """A kernel's source."""

    kernel: str


class KernelObservation(Observation):
    """What the policy hears: the task, and how far its last kernel came."""

    task: str = ""
    stage: str = ""


class KernelRubric(Rubric):
    """The reward of an action that has a `kernel`; `observation` is not read."""

    def __init__(self, reward: KernelReward) -> None:
        super().__init__()
        self.judge = reward
        self.last_stage = Stage.NOTHING

    def forward(self, action: Any, observation: Any) -> float:
        """Return the reward of the action's kernel."""
        self.last_stage = self.judge.stage(f"```\n{action.kernel}\n```")
        return self.judge.scored(self.last_stage)


class KernelEnvironment(Environment[KernelAction, KernelObservation, State]):
    """One problem; an episode ends with an accepted kernel or after `most_steps`."""

    def __init__(self, problem: str, *, most_steps: int = 4, **options: Any) -> None:
        self._reward = KernelReward(problem, **options)
        super().__init__(rubric=KernelRubric(self._reward))
        self._task = f"Write a file kernel.py for the problem '{problem}'."
        self._most_steps = most_steps
        self._state = State()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> KernelObservation:
        """Begin an episode. `seed` is not used: inputs are drawn anew, secretly."""
        self._state = State(episode_id=episode_id, step_count=0)
        return KernelObservation(task=self._task)

    def step(
        self, action: KernelAction, timeout_s: float | None = None, **kwargs: Any
    ) -> KernelObservation:
        """Judge the action's kernel."""
        rubric = self.rubric
        reward = float(rubric(action, None))
        self._state.step_count += 1
        done = rubric.last_stage is Stage.ACCEPTED or self._state.step_count >= self._most_steps
        return KernelObservation(
            task=self._task, stage=rubric.last_stage.value, reward=reward, done=done
        )

    @property
    def state(self) -> State:
        """The episode's name and its steps."""
        return self._state

    def close(self) -> None:
        """End the waiting judges."""
        self._reward.close()
