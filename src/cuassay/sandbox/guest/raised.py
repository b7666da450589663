"""What is told of an exception: its type, text, traceback and own lines, and what it claims."""

from __future__ import annotations

import errno
import os
import traceback
from dataclasses import replace

import torch

from cuassay.errors import LaunchError, MissingToolError, UncoveredError
from cuassay.model.trace import Claim, StepRaised
from cuassay.sandbox.environment_failure import environment_failure
from cuassay.sandbox.guest.callers.autograd import BackwardError
from cuassay.sandbox.guest.interface import InputChangedError, RankRaisedError, RanksStuckError
from cuassay.sandbox.guest.memory import placement
from cuassay.sandbox.guest.observe.call_trace import candidate_frames
from cuassay.sandbox.no_memory import says_no_memory

_MESSAGE_CAP = 4096
_TRACEBACK_CAP, _FRAMES = 16384, 60


def raised(index: int, error: BaseException) -> StepRaised:
    """Return the record of an exception; its texts are the candidate's and capped."""
    if isinstance(error, RankRaisedError):  # its process made the record
        return replace(error.record, index=index, message=str(error)[:_MESSAGE_CAP])
    try:
        message = str(error)
    except BaseException:
        message = "(the exception's own __str__ raised)"
    try:
        first = found = error.__traceback__
        own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        while found is not None and found.tb_frame.f_code.co_filename.startswith(own):
            found = found.tb_next
        frames = found or first
        # The last frames alone: a recursion may have a million of them.
        text = "".join(traceback.format_exception(type(error), error, frames, limit=-_FRAMES))
    except BaseException:
        text = ""
    return StepRaised(
        index=index,
        exception=type(error).__name__[:200],
        message=message[:_MESSAGE_CAP],
        traceback=text[-_TRACEBACK_CAP:],
        claim=_claim(error, message),
        frames=candidate_frames(error),
        ranks=error.ranks if isinstance(error, RanksStuckError) else (),
    )


def _claim(error: BaseException, message: str) -> Claim | None:
    if placement.guards is not None and placement.guards.exhausted:
        return Claim.NO_MEMORY  # whatever was raised: the candidate was given a null pointer
    match error:
        case MemoryError() | torch.OutOfMemoryError():
            return Claim.NO_MEMORY
        case UncoveredError():
            return Claim.UNCOVERED
        case MissingToolError():
            return Claim.NO_TOOL
        case LaunchError():
            return Claim.LAUNCH
        case BackwardError():
            return Claim.BACKWARD
        case InputChangedError():
            return Claim.INPUT_CHANGED
        case RuntimeError() if says_no_memory(message):
            return Claim.NO_MEMORY
        case OSError(errno=errno.ENOMEM):
            return Claim.NO_MEMORY
        case _ if environment_failure(error):
            return Claim.NO_TOOL
    return None
