"""What a verdict without a GPU says of itself: what executed the kernels, and its limits."""

from __future__ import annotations

from cuassay import settings
from cuassay.build import INTERPRETER, MACHINE
from cuassay.checks.kernels.facts import cleaned_text
from cuassay.model.candidate import Candidate, Language
from cuassay.model.device import Device

IN_MACHINE = (
    "device: judged on a CPU: the kernels' PTX was executed by cuassay's PTX machine; not covered "
    "are weak memory, what ptxas makes of the PTX, and code paths of other architectures"
)
INTERPRETED = (
    "device: judged on a CPU, numbers by Triton's interpreter{because}; races and memory accesses "
    "only as far as MEM101, INIT101, RACE101 and SYNC101 passed in the PTX machine, the GPU's own "
    "arithmetic not"
)


_REASON = 240  # characters


def executed_by(candidate: Candidate, device: Device, kind: str, *, because: str = "") -> str:
    """Return the condition that a trial's device puts on its verdict, or an empty string.

    `kind` is what the candidate's worker says that it built; where it says nothing known, the
    weaker statement stands. `because` is its reason for the interpreter, untrusted text.
    """
    if device.on_gpu:
        return ""
    if candidate.language is Language.CUDA_KERNEL or kind.endswith(MACHINE):
        arch = settings.get(settings.MACHINE_ARCH)
        return f"{IN_MACHINE}; it was compiled for {arch}" if arch else IN_MACHINE
    if not kind.endswith(INTERPRETER) and not candidate.launches_ptx:
        return ""
    reason = cleaned_text(because, _REASON)
    return INTERPRETED.format(because=f" because {reason}" if reason else "")
