"""Two candidates' launches in the algebra: are they the same expressions in real numbers?

Both are called once on the same case in workers of their own; the recordings go to a third worker
into which nothing of either is loaded (`algebra.programs`).
"""

from __future__ import annotations

import json

import torch

from cuassay.judge.run.machine import HostNursery
from cuassay.judge.run.machine_worker import asked
from cuassay.model.digest import sha256_fields
from cuassay.model.machine import EqualityEvidence
from cuassay.sandbox.guest.items import host_memory
from cuassay.sandbox.host.call import Caller

_LAUNCH_LIMIT_S, _LIMIT_S = 120.0, 900.0
_FUNCTION = "cuassay.algebra.programs:compare"


def compare(
    first: torch.Tensor, second: torch.Tensor, *, digest: str, host: HostNursery
) -> EqualityEvidence:
    """Return how much of two recordings (uint8, files' bytes) is the same expression.

    `digest` keeps the compiled kernels of one pair apart from those of another. Raises
    CannotJudgeError where the process ends without an answer.
    """
    from cuassay.algebra.programs import prepare

    prepare()  # here, for a worker cannot write the runtime's folder
    wanted = json.dumps({"limit_s": _LAUNCH_LIMIT_S}).encode()
    held = [one.cpu().contiguous() for one in (first, second)]
    recordings = [host_memory(one) for one in held]
    with Caller(host.get(), name=sha256_fields("ptx-machine", digest)) as caller:
        return asked(
            caller,
            _FUNCTION,
            [*recordings, memoryview(wanted)],
            EqualityEvidence,
            timeout_s=_LIMIT_S,
        )
