"""A problem's inputs as its own benchmark makes them, so that its verdict can be replayed.

SOL-ExecBench seeds Python's and torch's generators once a process and draws every round from
where the last call left them; here each draw starts from the seed, so that it repeats.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import torch

from cuassay.errors import ReferenceError_
from cuassay.inputs.benchmark_rules import random_scalar, random_tensor
from cuassay.inputs.fills import kinds_for, make
from cuassay.inputs.legal import torch_dtype
from cuassay.inputs.scalars import default_scalar
from cuassay.inputs.seeds import derive
from cuassay.model.axes import resolve, shape_of
from cuassay.model.case import Fill
from cuassay.model.device import Device
from cuassay.model.domain import Real
from cuassay.model.problem import (
    CustomSource,
    InputSource,
    InputSpec,
    Problem,
    RandomSource,
    SafetensorsSource,
    Scalar,
    ScalarSource,
    ScalarSpec,
    Workload,
)

if TYPE_CHECKING:
    from cuassay.formats.execute import LoadedReference

Value: TypeAlias = torch.Tensor | Scalar


def draw(
    problem: Problem, workload: Workload, *, seed: int, device: Device, reference: LoadedReference
) -> dict[str, Value]:
    """Return the inputs of `workload` by name, in the problem's order, on `device`.

    A foreign problem's follow SOL-ExecBench's rules; a native problem's are standard normal
    floats, uniform integers and numbers as arguments within their domains. Global random states
    are left as they were. Raises ReferenceError_ where the generator fails, a stored tensor cannot
    be read, or a value has another shape or dtype than declared.
    """
    sizes = resolve(problem.axes, workload.axes)
    with _seeded(seed, device):
        # The benchmark runs the generator wherever there is one, even if nothing uses it.
        made: Mapping[str, object] = {}
        if reference.generator is not None:
            scalars = {
                name: source.value
                for name, source in workload.sources.items()
                if isinstance(source, ScalarSource)
            }
            try:
                made = reference.generator({**sizes, **scalars}, torch.device(device))
            except ReferenceError_:
                if any(isinstance(source, CustomSource) for source in workload.sources.values()):
                    raise
        return {
            spec.name: _value(
                spec,
                workload,
                sizes,
                made=made,
                device=device,
                native_seed=seed if problem.origin == "native" else None,
            )
            for spec in problem.inputs
        }


@contextmanager
def _seeded(seed: int, device: Device) -> Iterator[None]:
    """Seed the global generators as the benchmark does, and restore them afterwards."""
    where = torch.device(device)
    devices = []
    if where.type == "cuda":
        devices = [torch.cuda.current_device() if where.index is None else where.index]
    kept = random.getstate()
    try:
        with torch.random.fork_rng(devices=devices):
            random.seed(seed)
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(kept)


def _value(
    spec: InputSpec,
    workload: Workload,
    sizes: Mapping[str, int],
    *,
    made: Mapping[str, object],
    device: Device,
    native_seed: int | None,
) -> Value:
    source: InputSource = workload.sources.get(spec.name, RandomSource())
    if isinstance(source, CustomSource) and spec.name in made:
        return _checked(spec, made[spec.name], sizes, device=device)
    if isinstance(source, SafetensorsSource):
        try:
            from safetensors import safe_open

            with safe_open(source.path, framework="pt", device="cpu") as file:
                stored = file.get_tensor(source.key)
        except Exception as failure:  # safetensors raises types of its own, by version
            raise ReferenceError_(
                f"tensor '{source.key}' of {source.path} cannot be read: {failure}; "
                "check the file and the workload's tensor_key"
            ) from None
        return _checked(spec, stored, sizes, device=device)
    if isinstance(spec, ScalarSpec):
        if isinstance(source, ScalarSource):
            return source.value
        if native_seed is not None:
            return default_scalar(spec, seed=derive(native_seed, spec.name))
        return spec.default if spec.default is not None else random_scalar(spec)
    if isinstance(source, ScalarSource):
        return torch.tensor(source.value, dtype=torch_dtype(spec.dtype), device=device)
    if native_seed is not None:
        # Standard normal floats where any real is legal, else the domain's plain fill.
        seed = derive(native_seed, spec.name)
        domain = spec.domain
        if spec.dtype.is_liftable and domain == Real():
            return torch.randn(
                shape_of(spec.shape, sizes), dtype=torch_dtype(spec.dtype), device=device
            )
        kind = "normal" if spec.dtype.is_floating and "normal" in kinds_for(spec) else "uniform"
        return make(spec, Fill(kind=kind), sizes=sizes, seed=seed, device=device)
    return random_tensor(spec, shape_of(spec.shape, sizes), device)


def _checked(spec: InputSpec, value: object, sizes: Mapping[str, int], *, device: Device) -> Value:
    """Return the value on `device` if it is what the definition declares."""
    if isinstance(spec, ScalarSpec):
        if isinstance(value, torch.Tensor) and value.numel() == 1:
            value = value.item()
        if isinstance(value, bool | int | float):
            return value
        raise ReferenceError_(
            f"input '{spec.name}' is a {type(value).__name__}, expected a Python number"
        )
    if not isinstance(value, torch.Tensor):
        raise ReferenceError_(
            f"input '{spec.name}' is a {type(value).__name__}, expected a torch.Tensor"
        )
    shape, dtype = shape_of(spec.shape, sizes), torch_dtype(spec.dtype)
    packed = value.dtype is torch.uint8 and spec.dtype.value.endswith("_x2")
    if tuple(value.shape) != shape or (value.dtype is not dtype and not packed):
        raise ReferenceError_(
            f"input '{spec.name}' has shape {list(value.shape)} and dtype {value.dtype}, expected "
            f"{list(shape)} and {dtype}; correct the generator, the file or the definition"
        )
    return value.view(dtype).to(device) if packed else value.to(device)
