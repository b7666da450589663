"""What an exception says where memory ran out, of the host or of a device."""

from __future__ import annotations

# Libraries make their handles late: on a full device that is where memory runs out.
_WORDS = (
    "can't allocate memory",
    "out of memory",
    "_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
)


def says_no_memory(message: str) -> bool:
    """Whether the message of a RuntimeError of torch or CUDA says that memory ran out."""
    return any(part in message for part in _WORDS)
