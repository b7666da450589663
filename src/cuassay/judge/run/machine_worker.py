"""Questions to the PTX machine in a process of its own: recordings in, one answer out.

Its answer is bytes, read back field by field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from cuassay.errors import CannotJudgeError, UsageError
from cuassay.model import serial
from cuassay.sandbox.host.call import Caller
from cuassay.sandbox.host.waits import run_now

Answer = TypeVar("Answer")


def asked(
    caller: Caller,
    function: str,
    buffers: Sequence[memoryview],
    kind: type[Answer],
    *,
    timeout_s: float,
) -> Answer:
    """Wait for the machine's answer to bytes; see `ask`."""
    return run_now(ask(caller, function, buffers, kind, timeout_s=timeout_s))


async def ask(
    caller: Caller,
    function: str,
    buffers: Sequence[memoryview],
    kind: type[Answer],
    *,
    timeout_s: float,
) -> Answer:
    """Return the machine's answer to bytes. Raises CannotJudgeError where it has none."""
    try:
        data = await caller.ask(function, buffers, timeout_s=timeout_s)
        found: Answer = serial.loads(kind, data.decode(errors="replace"))
    except CannotJudgeError as error:
        raise CannotJudgeError(f"the PTX machine gave no answer: {error}"[:400]) from None
    except (UsageError, ValueError, TypeError, RecursionError) as error:
        raise CannotJudgeError(f"the PTX machine gave no valid answer: {error}"[:300]) from None
    return found
