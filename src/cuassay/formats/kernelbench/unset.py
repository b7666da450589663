"""Which parts of a module's state its constructor leaves unwritten, for a checkpoint to fill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def unset_state(build: Callable[[], Any], text: str) -> tuple[str, ...]:
    """Return the names in the state of the module that `build` returns which nobody wrote.

    Built where fresh memory is filled: they hold NaN, or the largest integer alone. A module whose
    file does not speak of empty memory is not built once more.
    """
    import torch

    if "empty" not in text:
        return ()
    with filled_memory():
        state = build().state_dict()
    found = []
    for name, value in state.items():
        if not isinstance(value, torch.Tensor) or not value.numel():
            continue
        if value.is_floating_point():
            unwritten = bool(value.isnan().any())
        elif value.dtype is torch.bool or value.is_complex():
            continue
        else:
            unwritten = bool((value == torch.iinfo(value.dtype).max).all())
        if unwritten:
            found.append(name)
    return tuple(found)


@contextmanager
def filled_memory() -> Iterator[None]:
    """Let torch fill fresh memory meanwhile, with NaN or the largest integer."""
    import torch

    settings: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    fills = settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    settings.fill_uninitialized_memory = True
    try:
        yield
    finally:
        settings.fill_uninitialized_memory = fills
        torch.use_deterministic_algorithms(before, warn_only=warns)
