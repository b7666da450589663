"""Two candidates' launches in the algebra: are they the same expressions in real numbers?

Both are called once on the same case in workers of their own; the recordings go to a third worker
into which nothing of either is loaded (`build.machine_equal`).
"""

from __future__ import annotations

import json

import torch

from cuassay.judge.machine import HostNursery
from cuassay.judge.machine_worker import asked, byte_inputs, machine_pool
from cuassay.model.machine import EqualityEvidence

_LAUNCH_LIMIT_S, _LIMIT_S = 120.0, 900.0
_BUILDER = "cuassay.build.machine.equal:load"
_AXES = {"first": "f", "second": "s", "request": "r"}


def compare(
    first: torch.Tensor, second: torch.Tensor, *, digest: str, host: HostNursery
) -> EqualityEvidence:
    """Return how much of two recordings (uint8, files' bytes) is the same expression.

    `digest` keeps the compiled kernels of one pair apart from those of another. Raises
    CannotJudgeError where the process ends without an answer.
    """
    from cuassay.build.machine.equal import prepare

    prepare()  # here, for a worker cannot write the runtime's folder
    wanted = json.dumps({"limit_s": _LAUNCH_LIMIT_S}).encode()
    request = torch.frombuffer(bytearray(wanted), dtype=torch.uint8)
    values = dict(zip(_AXES, (first, second, request), strict=True))
    pool = machine_pool(
        _PROBLEM, digest=digest, function="compare", builder=_BUILDER, nursery=host.get()
    )
    try:
        return asked(
            pool,
            values,
            EqualityEvidence,
            axes={axis: values[name].numel() for name, axis in _AXES.items()},
            label="two recordings in the algebra",
            timeout_s=_LIMIT_S,
        )
    finally:
        pool.close()


_PROBLEM = byte_inputs("two recordings", _AXES)
