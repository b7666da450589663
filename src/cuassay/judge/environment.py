"""What the trial ran on: versions and devices, for the report and for replays elsewhere."""

from __future__ import annotations

import platform
from collections.abc import Mapping

import torch

from cuassay import __version__
from cuassay.model.device import CPU, CUDA, Device


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
