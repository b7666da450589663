"""Raw `extern "C" __global__` kernels with declared launches, as a callable.

The callable takes the problem's inputs, then its outputs for the destination convention. It
makes inputs contiguous (a raw kernel gets pointers, no strides), takes axis sizes from the
shapes, evaluates the launch expressions and launches on torch's current stream.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cuassay.build.cuda.driver import (
    NOT_FOUND,
    OUT_OF_MEMORY,
    DriverError,
    Launcher,
    Parameter,
    load_driver,
)
from cuassay.build.cuda.nvrtc import compile_cubin, compile_ptx
from cuassay.build.cuda.perturbation import active
from cuassay.build.cuda.tile_maps import encoded
from cuassay.build.cuda.toolkit import architecture, hopper_arch
from cuassay.build.recording.driver import RecordedDriver
from cuassay.build.recording.ledger import LEDGER
from cuassay.build.sources import build_lock, write_sources
from cuassay.errors import BuildError, MissingToolError
from cuassay.model.axes import evaluate, resolve, shape_of
from cuassay.model.candidate import Candidate, Convention, Launch, Scratch
from cuassay.model.device import Device
from cuassay.model.digest import sha256_fields
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, Scalar, ScalarSpec, TensorSpec, VarAxis

if TYPE_CHECKING:
    import torch

    Value: TypeAlias = "torch.Tensor | Scalar"


def load_kernels(
    candidate: Candidate, problem: Problem, *, device: Device, folder: Path
) -> Callable[..., object]:
    """Compile the candidate's entry file and return it as a callable.

    The cubin is kept in `folder` under the digest of source, flags and architecture. Raises
    BuildError with the compiler's log or for a kernel that the source does not define, and
    MissingToolError where there is no NVIDIA GPU or no compiler.
    """
    if not device.on_gpu:
        raise MissingToolError("the driver launches on NVIDIA GPUs only; see build.machine")
    cubin = _cubin(candidate, arch=architecture(device), folder=folder)
    make = partial(_ptx, candidate, arch=architecture(device), folder=folder)
    launcher = RecordedDriver(
        load_driver(device.number or 0),
        ptx=cache(partial(make, lines=True)),
        sources={source.path: source.text for source in candidate.sources},
    )
    return bind(
        candidate,
        problem,
        device=device,
        cubin=cubin,
        launcher=launcher,
        ptx=cache(make),
        notice=launcher.notice,
    )


def _source(candidate: Candidate, *, arch: str, folder: Path) -> tuple[str, str]:
    """Return the one source that is compiled, and the architecture that it needs."""
    source = inline_sources(candidate, write_sources(candidate, folder))
    return source, hopper_arch(arch, source)


def _ptx(candidate: Candidate, *, arch: str, folder: Path, lines: bool = False) -> str:
    """Return the PTX; with `lines` its line information is that of the candidate's files."""
    source, arch = _source(candidate, arch=arch, folder=folder)
    if lines:
        source = inline_sources(candidate, write_sources(candidate, folder), lines=True)
    name = Path(candidate.entry_file).name
    return compile_ptx(source, arch=arch, flags=candidate.flags.cuda_cflags, name=name)


def _cubin(candidate: Candidate, *, arch: str, folder: Path) -> bytes:
    source, arch = _source(candidate, arch=arch, folder=folder)
    flags = candidate.flags.cuda_cflags
    file = folder / f"{sha256_fields(source, arch, *flags)[:32]}.cubin"
    with build_lock(folder):
        if file.is_file():
            return file.read_bytes()
        cubin = compile_cubin(source, arch=arch, flags=flags)
        draft = file.with_suffix(".draft")
        draft.write_bytes(cubin)
        draft.replace(file)
    return cubin


def inline_sources(candidate: Candidate, root: Path, *, lines: bool = False) -> str:
    """Return the entry file with `#include "..."` of the candidate's own files replaced.

    With `lines`, directives keep the compiler's line information that of the files. Raises
    BuildError where the entry file is not among the sources.
    """
    texts = {source.path: source.text for source in candidate.sources}
    if candidate.entry_file not in texts:
        raise BuildError(f"the entry file '{candidate.entry_file}' is not among the sources")
    return _inline(candidate.entry_file, texts, seen=set(), directives=lines)


def _inline(path: str, texts: Mapping[str, str], *, seen: set[str], directives: bool) -> str:
    seen.add(path)
    lines = []
    for number, line in enumerate(texts[path].splitlines(), start=1):
        name = line.split('"')[1] if line.lstrip().startswith('#include "') else ""
        near = (Path(path).parent / name).as_posix() if name else ""
        found = next((own for own in (near, name) if own in texts), "")
        if found and found not in seen:
            inner = _inline(found, texts, seen=seen, directives=directives)
            if directives:
                inner = f'#line 1 "{found}"\n{inner}\n#line {number + 1} "{path}"'
            lines.append(inner)
        elif found:
            lines.append("")
        else:
            lines.append(line)
    return "\n".join(lines)


def current_stream(device: Device) -> int:
    """Return the handle of torch's current stream on a CUDA device."""
    import torch

    handle: int = torch.cuda.current_stream(device).cuda_stream
    return handle


def bind(
    candidate: Candidate,
    problem: Problem,
    *,
    device: Device,
    cubin: bytes,
    launcher: Launcher,
    ptx: Callable[[], str] | None = None,
    stream_of: Callable[[Device], int] = current_stream,
    notice: Callable[[Mapping[str, Value]], None] | None = None,
) -> Callable[..., object]:
    """Return the callable that runs every declared launch in order.

    `ptx` makes the same kernels' PTX, for runs with pauses in them. `notice` is told every value
    that arguments may name, before the first launch. Raises BuildError where the cubin lacks a
    declared kernel.

    """
    functions = [_function(launcher, cubin, launch) for launch in candidate.launches]
    if not functions:
        raise BuildError(f"'{candidate.name}' declares no launch; see `cuassay explain BUILD001`")
    for launch in candidate.launches:
        LEDGER.define(launch.kernel)
    LEDGER.binary("raw kernels", cubin)

    def call(*arguments: Value) -> object:
        names = [spec.name for spec in problem.inputs]
        if candidate.convention is Convention.DESTINATION:
            names += [spec.name for spec in problem.outputs]
        if len(arguments) != len(names):
            raise TypeError(
                f"expected {len(names)} arguments ({', '.join(names)}), got {len(arguments)}"
            )
        inputs = len(problem.inputs)
        contiguous = [
            value.contiguous() if index < inputs and hasattr(value, "contiguous") else value
            for index, value in enumerate(arguments)
        ]
        values = dict(zip(names, contiguous, strict=True))
        sizes = _sizes(problem, values)
        outputs = [_output(spec, values, sizes, device) for spec in problem.outputs]
        if candidate.zero_outputs:
            for output in outputs:
                output.zero_()
        values |= {spec.name: output for spec, output in zip(problem.outputs, outputs, strict=True)}
        values |= {item.name: _scratch(item, sizes, device) for item in candidate.scratch}
        stream = stream_of(device)
        if notice is not None:
            notice(values)
        # The kernels with pauses in them while such are wanted, else None.
        perturbation = active()
        if perturbation is None or ptx is None:
            perturbed = None
        else:
            perturbed = perturbation.handles(
                launcher, [launch.kernel for launch in candidate.launches], ptx
            )
        now = perturbed or functions
        for launch, function in zip(candidate.launches, now, strict=True):
            grid = _extent(launch.grid, sizes)
            given = _Arguments(candidate, launcher, values, sizes)
            if 0 in grid:  # nothing to do, and the driver refuses an empty grid
                continue
            go = partial(
                launcher.launch,
                function,
                grid,
                _extent(launch.block, sizes),
                shared_bytes=evaluate(launch.shared_bytes, sizes),
                stream=stream,
                arguments=[given.parameter(name) for name in launch.arguments],
                cluster=_extent(launch.cluster, sizes),
            )
            LEDGER.launch(launch.kernel, go)
        if candidate.convention is Convention.DESTINATION:
            return None
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return call


def _function(launcher: Launcher, cubin: bytes, launch: Launch) -> int:
    try:
        return launcher.function(cubin, launch.kernel)
    except DriverError as error:
        if error.status == OUT_OF_MEMORY:
            raise  # the device is full: no fault of the candidate's
        hint = '; declare it extern "C" __global__' if error.status == NOT_FOUND else ""
        what = f"the kernel '{launch.kernel}' cannot be loaded{hint}"
        raise BuildError(what, str(error)) from error


def _sizes(problem: Problem, values: Mapping[str, Value]) -> dict[str, int]:
    """Return every axis size, read off the shapes of the tensors given."""
    variable = {axis.name for axis in problem.axes if isinstance(axis, VarAxis)}
    bound: dict[str, int] = {}
    for spec in (*problem.inputs, *problem.outputs):
        value = values.get(spec.name)
        if isinstance(spec, ScalarSpec) or value is None or isinstance(value, float | int):
            continue
        for name, size in zip(spec.shape, value.shape, strict=True):
            if name in variable:
                bound.setdefault(name, size)
    return resolve(problem.axes, bound)


def _output(
    spec: TensorSpec, values: Mapping[str, Value], sizes: Mapping[str, int], device: Device
) -> torch.Tensor:
    import torch

    given = values.get(spec.name)
    if isinstance(given, torch.Tensor):
        return given
    return torch.empty(shape_of(spec.shape, sizes), dtype=_torch_type(spec.dtype), device=device)


def _scratch(item: Scratch, sizes: Mapping[str, int], device: Device) -> torch.Tensor:
    import torch

    make = torch.zeros if item.zeroed else torch.empty
    return make(evaluate(item.size, sizes), dtype=_torch_type(DType(item.dtype)), device=device)


def _torch_type(dtype: DType) -> torch.dtype:
    import torch

    found = getattr(torch, dtype.value, torch.uint8)  # packed pairs without a torch name: bytes
    assert isinstance(found, torch.dtype)
    return found


def _extent(expressions: tuple[str, str, str], sizes: Mapping[str, int]) -> tuple[int, int, int]:
    x, y, z = (evaluate(expression, sizes) for expression in expressions)
    return x, y, z


class _Arguments:
    """The arguments of a launch: tensor maps, and what `parameter` makes of the others."""

    def __init__(
        self, candidate: Candidate, launcher: Launcher, values: Mapping[str, Value],
        sizes: Mapping[str, int],
    ) -> None:  # fmt: skip
        self._maps = {one.name: one for one in candidate.tile_maps}
        self._launcher, self._values, self._sizes = launcher, values, sizes

    def parameter(self, name: str) -> Parameter:
        """Return one argument by its declared text."""
        spec = self._maps.get(name)
        if spec is None:
            return parameter(name, self._values, self._sizes)
        tensor: Any = self._values[spec.tensor]
        raw = self._launcher.tensor_map(encoded(spec, tensor, self._sizes))
        return (ctypes.c_uint64 * 16).from_buffer_copy(raw)


def parameter(text: str, values: Mapping[str, Value], sizes: Mapping[str, int]) -> Parameter:
    """Return one kernel argument: a pointer, a float32, or a 64-bit (`:int32`: 32-bit) integer.

    `NUMBER:float32` is a constant.

    Raises ProblemError for an expression that names no axis.
    """
    expression, _, suffix = text.partition(":")
    value = values.get(expression)
    if suffix == "float32" and value is None:
        return ctypes.c_float(float(expression))
    if value is None:
        value = evaluate(
            expression,
            {**sizes, **{name: value for name, value in values.items() if isinstance(value, int)}},
        )
    if isinstance(value, float):
        return ctypes.c_float(value)
    if isinstance(value, int):
        return ctypes.c_int32(value) if suffix == "int32" else ctypes.c_int64(value)
    return ctypes.c_uint64(value.data_ptr())
