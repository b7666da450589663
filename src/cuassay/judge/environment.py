"""What the trial ran on: versions and devices, for the report and for replays elsewhere."""

from __future__ import annotations

import platform
from collections.abc import Mapping

import torch

from cuassay import __version__


def environment(device: str, toolchain: Mapping[str, str]) -> dict[str, str]:
    """Return names to versions; nothing here names a user, a host or a path."""
    if device.startswith("cuda"):
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
    if device.startswith("cuda"):
        peak_gib = torch.cuda.max_memory_reserved(device) / 2**30
        found["judge_gpu_peak_gib"] = f"{peak_gib:.2f}"
    return found | {name: version for name, version in toolchain.items() if name not in found}


def choose_device(asked: str | None) -> str:
    """Return cpu or cuda: what was asked for, else cuda where a GPU answers.

    Raises MissingToolError where cuda was asked for and no GPU answers.
    """
    from cuassay.errors import MissingToolError

    available = torch.cuda.is_available()
    if asked and asked.startswith("cuda") and not available:
        raise MissingToolError(
            f"--device {asked}: torch {torch.__version__} sees no GPU; use --device cpu, or "
            "install a CUDA build of torch and check the driver with `cuassay doctor`"
        )
    return asked or ("cuda" if available else "cpu")
