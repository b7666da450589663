"""Truth made in the user's own process, where the oracle's process cannot load the operator.

The full oracle changes state that all threads share while it runs (default dtype, backend
flags, the random state), which a guard inside a live process must not. Here the trusted
operator runs on inputs widened to float64, else float32, else as they are; achievable error
comes from runs on perturbed inputs. The perturbation is 32 roundings of float32 wide, since
the operator's own order of summation is not modelled: faults of float32 outputs smaller than
that need the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cuassay.errors import ReferenceError_
from cuassay.model.problem import TensorSpec
from cuassay.oracle.truth.outputs import collector, finish
from cuassay.oracle.truth.types import Truth

_GAIN = 32.0
_ROUNDOFF = 2.0**-24
_DRAWS = 6
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def local_truth(
    run: Callable[[Sequence[Tensor]], list[Tensor]],
    tensors: Sequence[Tensor],
    specs: Sequence[TensorSpec],
    seed: int,
) -> Truth:
    """Return the truth of `run(tensors)` without touching anything that threads share.

    Raises ReferenceError_ where the operator returns another number of outputs on any run, and
    what the operator raises on its own inputs.
    """
    written = _checked(run(tensors), specs)
    plain, kind = _widest(run, tensors, specs, written)
    found = [collector(spec, out, None, None) for spec, out in zip(specs, plain, strict=True)]
    for item, own in zip(found, written, strict=True):
        item.trusted(own, as_written=True)
    device = next((t.device for t in tensors), torch.device("cpu"))
    generator = torch.Generator(device=device).manual_seed(seed)
    for _ in range(_DRAWS):
        moved = [_moved(tensor, generator) for tensor in tensors]
        widened = _attempt(run, moved, specs)
        for item, out in zip(found, widened or _checked(run(tensors), specs), strict=True):
            item.draw(out)
    outputs = tuple(finish(item, roundoff=_GAIN * _ROUNDOFF, discontinuous=True) for item in found)
    reason = f"the trusted operator was run in this process on inputs widened to {kind}"
    return Truth(outputs=outputs, kind=kind, reason=reason, draws=_DRAWS)


def _widest(
    run: Callable[[Sequence[Tensor]], list[Tensor]],
    tensors: Sequence[Tensor],
    specs: Sequence[TensorSpec],
    written: list[Tensor],
) -> tuple[list[Tensor], str]:
    for wide in (torch.float64, torch.float32):
        given = [t.to(wide) if t.dtype in _FLOATS else t for t in tensors]
        found = _attempt(run, given, specs)
        if found is not None and all(  # a wider run of another kind is no truth
            wider.shape == one.shape and wider.is_floating_point() == one.is_floating_point()
            for wider, one in zip(found, written, strict=False)
        ):
            return found, str(wide).removeprefix("torch.")
    return written, "nothing (it takes no wider ones)"


def _attempt(
    run: Callable[[Sequence[Tensor]], list[Tensor]],
    tensors: Sequence[Tensor],
    specs: Sequence[TensorSpec],
) -> list[Tensor] | None:
    """Return what the operator gives on inputs of another dtype, None where it takes none."""
    try:
        return _checked(run(tensors), specs)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # a custom operator need not know other dtypes
        return None


def _checked(outputs: list[Tensor], specs: Sequence[TensorSpec]) -> list[Tensor]:
    if len(outputs) != len(specs):
        raise ReferenceError_(
            f"the trusted operator returned {len(outputs)} tensors, expected {len(specs)}"
        )
    return outputs


def _moved(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Return a floating tensor widened, each element off by 32 roundings of float32."""
    if tensor.dtype not in (*_FLOATS, torch.float64):
        return tensor
    xi = torch.randn(
        tensor.shape, generator=generator, device=generator.device, dtype=torch.float32
    ).to(tensor.device)
    return tensor.double() * (1.0 + _GAIN * _ROUNDOFF * xi.double())
