"""An agent writes a kernel in OpenEnv's environment; each step is judged.

    pip install 'cuassay[cpu]' openenv
    python examples/reward_openenv.py

An observation holds the task, the stage that the kernel reached and the reward, nothing else of the
trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing

from cuassay.adapters.openenv import KernelAction, KernelEnvironment, KernelObservation

FORGETS_THE_WEIGHT = """
import torch

def run(x, weight, eps):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
"""
RIGHT = FORGETS_THE_WEIGHT.replace("+ eps))", "+ eps) * weight.float())")


def episode(environment: KernelEnvironment, kernels: Iterable[str]) -> Iterator[KernelObservation]:
    """Yield what the policy sees after each of its kernels, until the episode ends."""
    environment.reset()
    for kernel in kernels:
        seen = environment.step(KernelAction(kernel=kernel))
        yield seen
        if seen.done:
            return


if __name__ == "__main__":
    with closing(KernelEnvironment("rmsnorm", shaped=True, device="cpu")) as kernels:
        for told in episode(kernels, [FORGETS_THE_WEIGHT, RIGHT]):
            print(told.stage, told.reward, told.done)
