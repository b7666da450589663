"""Launches that no GPU accepts, told from their extents alone."""

from __future__ import annotations

from cuassay.model.machine import LaunchLimits
from cuassay.model.recording import decode

_ARCH = 90  # threads and extents of a launch are those of every architecture


def launch_limits(data: bytes) -> LaunchLimits:
    """Return which launches of a recording (a file's bytes) CUDA refuses. Raises UsageError."""
    recording = decode(data)
    from ptxsan.limits import refusal
    from ptxsan.names import plain_name

    launches = (*recording.launches, *recording.refused)
    refused: dict[str, str] = {}
    for one in launches:
        found = refusal(
            plain_name(one.kernel), {}, grid=one.grid, block=one.block, cluster=one.cluster,
            static_bytes=0, dynamic_bytes=one.shared_bytes, arch=_ARCH,
        )  # fmt: skip
        if found is not None:
            refused.setdefault(one.kernel, found.text)
    return LaunchLimits(
        launches=len(launches), refused=tuple(refused.items()), notes=recording.notes
    )
