"""Which parts of a module's state its constructor leaves unwritten, for a checkpoint to fill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


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
    return tuple(
        name
        for name, value in state.items()
        if isinstance(value, torch.Tensor)
        and value.numel()
        and (holds_nothing(value) or (value.is_floating_point() and bool(value.isnan().any())))
    )


def holds_nothing(tensor: torch.Tensor) -> bool:
    """Whether a tensor that was made in filled memory is as that was filled."""
    import torch

    if tensor.is_floating_point():
        return bool(tensor.isnan().all())
    if tensor.dtype is torch.bool or tensor.is_complex():
        return False
    return bool((tensor == torch.iinfo(tensor.dtype).max).all())


@contextmanager
def filled_memory() -> Iterator[None]:
    """Let torch fill fresh memory meanwhile, with NaN or the largest integer."""
    import torch

    settings: Any = torch.utils.deterministic
    before, fills = torch.get_deterministic_debug_mode(), settings.fill_uninitialized_memory
    # torch.use_deterministic_algorithms does the same, and imports torch's compiler: two seconds.
    torch.set_deterministic_debug_mode("warn")
    settings.fill_uninitialized_memory = True
    try:
        yield
    finally:
        settings.fill_uninitialized_memory = fills
        torch.set_deterministic_debug_mode(before)
