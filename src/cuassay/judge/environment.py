"""What the trial ran on: versions and devices, for the report and for replays elsewhere."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace

import torch

from cuassay import __version__
from cuassay.errors import CannotJudgeError
from cuassay.model.device import CPU, CUDA, Device
from cuassay.model.problem import Problem, VarAxis
from cuassay.model.ranks import AXIS


def environment(device: Device, toolchain: Mapping[str, str]) -> dict[str, str]:
    """Return names to versions; nothing here names a user, a host or a path."""
    if device.on_gpu:
        properties = torch.cuda.get_device_properties(0)
        device_name = f"{properties.name} (sm_{properties.major}{properties.minor})"
    else:
        device_name = "CPU"
    found = {
        "cuassay": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "device": device_name,
    }
    if device.on_gpu:
        peak_gib = torch.cuda.max_memory_reserved(device) / 2**30
        found["judge_gpu_peak_gib"] = f"{peak_gib:.2f}"
    return found | {name: version for name, version in toolchain.items() if name not in found}


def within_gpus(problem: Problem, device: Device) -> Problem:
    """Return a problem with no more ranks than there are GPUs, on a CPU as it is.

    Raises CannotJudgeError where the fewest ranks are more.
    """
    if problem.ranks is None or not device.on_gpu:
        return problem
    gpus = torch.cuda.device_count()
    counts = next(axis.sizes for axis in problem.var_axes() if axis.name == AXIS)
    kept = tuple(count for count in counts if count <= gpus)
    if not kept:
        raise CannotJudgeError(
            f"'{problem.name}' is for {counts[0]} ranks or more, a GPU each, and this machine has "
            f"{gpus}; judge it with --device cpu"
        )
    return replace(
        problem,
        axes=tuple(
            replace(axis, minimum=kept[0], maximum=kept[-1], sizes=kept)
            if isinstance(axis, VarAxis) and axis.name == AXIS
            else axis
            for axis in problem.axes
        ),
        workloads=tuple(
            replace(one, axes={**one.axes, AXIS: min(one.axes[AXIS], kept[-1])})
            for one in problem.workloads
        ),
    )


def choose_device(asked: Device | None) -> Device:
    """Return cpu or cuda: what was asked for, else cuda where a GPU answers.

    Raises MissingToolError where cuda was asked for and no GPU answers.
    """
    from cuassay.errors import MissingToolError

    available = torch.cuda.is_available()
    if asked is not None and asked.on_gpu and not available:
        raise MissingToolError(
            f"--device {asked}: torch {torch.__version__} sees no GPU; use --device cpu, or "
            "install a CUDA build of torch and check the driver with `cuassay doctor`"
        )
    return asked or (CUDA if available else CPU)
