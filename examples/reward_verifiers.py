"""A taskset for the library verifiers: one task a problem, scored by cuassay's verdict.

    pip install 'cuassay[cpu]' verifiers

`load_taskset` of verifiers finds the class below in a module; `prime eval` and trainers run it.
"""

from __future__ import annotations

from collections.abc import Iterable

import verifiers.v1 as vf
from cuassay.adapters.verifiers import KernelTask, kernel_task

PROMPT = (
    "Write kernel.py for the operator {problem} of cuassay's catalogue. Answer with one fenced "
    "block of Python that defines run."
)


class Kernels(vf.Taskset[KernelTask, vf.TasksetConfig]):
    """Three problems of the catalogue, with the shaped reward."""

    def load(self) -> Iterable[KernelTask]:
        """Yield the tasks."""
        for problem in ("rmsnorm", "softmax", "swiglu"):
            yield kernel_task(problem, PROMPT.format(problem=problem), shaped=True, device="cpu")


__all__ = ["Kernels"]
