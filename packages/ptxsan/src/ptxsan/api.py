"""One call for one kernel: compile, launch with numpy arrays, and say what is wrong.

import numpy as np, ptxsan
x, y = np.ones(1000, np.float32), ptxsan.empty(1000, "float32")
report = ptxsan.check("k.cu", "scale", grid=4, block=256, args={"x": x, "y": y, "n": 1000})
assert report.ok, report.text
"""

from __future__ import annotations

import dataclasses
import importlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ptxsan import sources
from ptxsan.declarations import size_of
from ptxsan.errors import MachineError, UsageError
from ptxsan.findings import MachineFinding, MachineReport, Severity, strict
from ptxsan.isa import arch_number
from ptxsan.launch import Argument, Buffer, Dim3, Launch, Pointer
from ptxsan.names import plain_name, source_name
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run
from ptxsan.schedules import SCHEDULES, OrderDependence, compare
from ptxsan.syntax import Declaration

Dim = int | Sequence[int]
ONE = (("forward", 0),)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fresh:
    """Memory that nobody has written: `array` holds what the kernel writes there."""

    array: NDArray[Any]


def empty(shape: int | Sequence[int], dtype: DTypeLike = "float32") -> Fresh:
    """Return uninitialised memory for a kernel to write, as cudaMalloc gives it."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[:] = 0xFF  # NaN in every float type: unused bytes stand out
    return Fresh(array=array)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found in one kernel.

    `reports` has one MachineReport a schedule; `hidden` are findings of the build without
    optimisation that the optimised build does not show: the compiler removed the fault, or moved
    it; `order` what depends on the order of blocks and threads. `inconclusive` says why the
    launch could not be executed to its end, `no_debug_build` why the build without optimisation
    could not: then faults that optimisation hides are not looked for.
    """

    kernel: str
    grid: Dim3
    block: Dim3
    reports: tuple[MachineReport, ...]
    findings: tuple[MachineFinding, ...]
    hidden: tuple[MachineFinding, ...] = ()
    order: tuple[OrderDependence, ...] = ()
    inconclusive: str = ""
    no_debug_build: str = ""
    ptx: str = field(default="", repr=False)
    source: str = field(default="", repr=False)

    @property
    def wrong(self) -> tuple[MachineFinding, ...]:
        """The findings that reject."""
        return tuple(one for one in (*self.findings, *self.hidden)
                     if one.severity is Severity.WRONG)  # fmt: skip

    @property
    def ok(self) -> bool:
        """Whether the launch ran to its end and nothing is wrong."""
        return not self.wrong and not self.inconclusive

    @property
    def text(self) -> str:
        """The report in words, as `ptxsan run` prints it."""
        from ptxsan.reporting import text

        return text(self)


def check(
    source: str | Path,
    kernel: str = "",
    *,
    grid: Dim,
    block: Dim | None = None,
    args: Mapping[str, Any] | Sequence[Any] = (),
    shared_bytes: int = 0,
    cluster: Dim = 1,
    arch: str = "",
    flags: Sequence[str] = (),
    schedules: Sequence[tuple[str, int]] = ONE,
    debug: bool = False,
    strict_order: bool = False,
    options: Options | None = None,
) -> Report:
    """Execute one kernel with every check on.

    `source` is a path (.cu, .ptx, .py with CuPy or Triton kernels), CUDA C++ or PTX text.
    `args` are in the order of the kernel's parameters, names are for reports: numpy arrays
    (changed in place), `empty(...)`, CPU tensors of torch, numbers (of the parameter's type), bytes
    (structs), None (a null pointer). With several `schedules` each starts from the same memory;
    arrays hold what the last one left. With `debug`, CUDA C++ is also run as -G compiles it;
    where that build cannot be executed, the report keeps the optimised one and says why. With
    `strict_order`, missing order of strong accesses is an error (`findings.ORDER`).
    Raises UsageError for arguments that do not fit, CompileError, and MachineError for a launch
    that does not fit.
    """
    named = list(args.items()) if isinstance(args, Mapping) else [
        (f"argument {number}", value) for number, value in enumerate(args)
    ]  # fmt: skip
    found = sources.of_source(
        source, kernel=kernel, arch=arch, flags=flags, debug=debug, arguments=named
    )
    chosen = options or Options()
    chosen = dataclasses.replace(chosen, arch=arch_number(arch)) if arch else chosen
    copies = _copied(named) if found.debug else []
    report = _checked(found, found.ptx, kernel, grid, block, named, shared_bytes, cluster,
                      schedules, chosen)  # fmt: skip
    if found.debug and not report.inconclusive:
        plain = dataclasses.replace(chosen, shadow=False)
        try:
            again = _checked(found, found.debug, kernel, grid, block, copies, shared_bytes,
                             cluster, ONE, plain)  # fmt: skip
        except MachineError as error:
            report = dataclasses.replace(report, no_debug_build=str(error))
            return _strict(report) if strict_order else report
        known = {(one.kind, _line(one)) for one in report.findings}
        kinds = {one.kind for one in report.findings}
        hidden = [
            one for one in again.findings
            if (one.kind, _line(one)) not in known and one.kind not in kinds
        ]  # fmt: skip
        report = dataclasses.replace(
            report, hidden=tuple(hidden), no_debug_build=again.inconclusive
        )
    return _strict(report) if strict_order else report


def _strict(report: Report) -> Report:
    return dataclasses.replace(
        report, findings=strict(report.findings), hidden=strict(report.hidden)
    )


def schedules(count: int) -> tuple[tuple[str, int], ...]:
    """Return that many schedules: forward, reverse, then random ones."""
    if not 1 <= count <= 32:
        raise UsageError(f"{count} schedules; expected 1 to 32")
    return (*SCHEDULES, *(("random", seed) for seed in range(3, 33)))[:count]


def _line(one: MachineFinding) -> int | None:
    return one.accesses[0].source_line if one.accesses else None


def _checked(
    found: sources.Ptx, ptx: str, kernel: str, grid: Dim, block: Dim | None,
    named: Sequence[tuple[str, Any]], shared_bytes: int, cluster: Dim,
    schedules: Sequence[tuple[str, int]], options: Options,
) -> Report:  # fmt: skip
    module = parse(ptx)
    entry = sources.entry(module, kernel, found.names)
    threads = dim(block) if block is not None else found.block
    if threads is None:
        raise UsageError("the block's size is not given; expected 256, say, or x, y and z")
    given = [(name, value) for name, value in named if name not in found.constants]
    given += [("scratch", None)] * found.more_arguments
    if found.shapes:
        given = [each for name, value in given for each in _with_shape(name, value)]
    if len(given) != len(entry.params):
        raise UsageError(
            f"kernel '{plain_name(entry.name)}' takes {len(entry.params)} arguments, "
            f"{len(given)} are given; give one for each parameter, in their order"
        )
    buffers: dict[tuple[int, int], Buffer] = {}
    arguments = tuple(
        _argument(name, value, parameter, buffers)
        for (name, value), parameter in zip(given, entry.params, strict=True)
    )
    before = [
        (one, one.data.copy(), None if one.initialised is None else one.initialised.copy())
        for one in buffers.values()
    ]
    blocks = dim(grid)

    def launch() -> Launch:
        for one, data, flags in before:
            one.data[:] = data
            if one.initialised is not None and flags is not None:
                one.initialised[:] = flags
        return Launch(
            kernel=entry.name, grid=blocks, block=threads, arguments=arguments,
            cluster=dim(cluster), dynamic_shared_bytes=shared_bytes or found.shared_bytes,
        )  # fmt: skip

    order: tuple[OrderDependence, ...] = ()
    if len(schedules) == 1:
        schedule, seed = schedules[0]
        chosen = dataclasses.replace(options, schedule=schedule, seed=seed)
        reports: tuple[MachineReport, ...] = (run(module, launch(), options=chosen),)
        findings = reports[0].findings
    else:
        compared = compare(module, launch, options=options, schedules=schedules)
        reports, findings, order = compared.reports, compared.findings, compared.order_dependent
    return Report(
        kernel=source_name(entry.name), grid=blocks, block=threads, reports=reports,
        findings=findings, order=order, ptx=ptx, source=found.text,
        inconclusive=next((one.inconclusive for one in reports if one.inconclusive), None) or "",
    )  # fmt: skip


def _with_shape(name: str, value: Any) -> list[tuple[str, Any]]:
    """Return what Numba passes for an argument: arrays with their sizes and strides in bytes.

    Numba's ArrayModel: meminfo, parent, items, bytes of one, data, shape, strides.
    """
    array = value.array if isinstance(value, Fresh) else value
    if not isinstance(array, np.ndarray):
        return [(name, value)]
    sizes = [*array.shape, *array.strides]
    return [
        (f"{name}.meminfo", None), (f"{name}.parent", None), (f"{name}.size", array.size),
        (f"{name}.itemsize", array.itemsize), (name, value),
        *((f"{name}.shape", size) for size in sizes),
    ]  # fmt: skip


def dim(given: Dim) -> Dim3:
    """Return x, y and z of a number or a sequence of one to three."""
    sizes = (given,) if isinstance(given, int) else tuple(given)
    if not 1 <= len(sizes) <= 3:
        raise UsageError(f"{sizes} has {len(sizes)} sizes; expected one to three: x, y and z")
    x, y, z = (*map(int, sizes), 1, 1)[:3]
    return x, y, z


def _argument(
    name: str, value: Any, parameter: Declaration, buffers: dict[tuple[int, int], Buffer]
) -> Argument:
    """Return one argument as the machine takes it. Raises UsageError where it does not fit."""
    match value:
        case None | bytes() | bool() | int() | float() | np.generic():
            return packed(name, value, parameter)
        case Fresh():
            return Pointer(buffer=_buffer(name, value.array, buffers, fresh=True))
        case _:
            return Pointer(buffer=_buffer(name, value, buffers, fresh=False))


def packed(name: str, value: Any, parameter: Declaration) -> bytes:
    """Return a scalar, bytes or None as the bytes of a parameter.

    Raises UsageError where they do not fit.
    """
    size = parameter.count * size_of(parameter.type)
    if value is None:
        return bytes(size)
    data = value if isinstance(value, bytes) else _packed(name, value, parameter, size)
    if len(data) != size:
        raise UsageError(f"argument '{name}' has {len(data)} bytes; its parameter takes {size}")
    return data


def _packed(name: str, value: Any, parameter: Declaration, size: int) -> bytes:
    if isinstance(value, np.generic):
        return value.tobytes()
    if parameter.type in ("f32", "f64"):
        return struct.pack({"f32": "<f", "f64": "<d"}[parameter.type], value)
    if isinstance(value, float):
        if size == 2:
            return np.float16(value).tobytes()
        raise UsageError(
            f"argument '{name}' is {value}, and its parameter an integer or a struct of {size} "
            "bytes; give an integer, or the bytes of the struct"
        )
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _buffer(
    name: str, value: Any, buffers: dict[tuple[int, int], Buffer], *, fresh: bool
) -> Buffer:
    array = _array(name, value)
    if not array.flags.c_contiguous:
        raise UsageError(f"argument '{name}' is not contiguous; pass a copy")
    key = int(array.ctypes.data), array.nbytes
    if key not in buffers:
        flags = np.zeros(array.nbytes, np.bool_) if fresh else None
        data = array.reshape(-1).view(np.uint8)
        buffers[key] = Buffer(name=name, data=data, initialised=flags)
    return buffers[key]


def _array(name: str, value: Any) -> NDArray[Any]:
    if hasattr(value, "untyped_storage"):  # a tensor of torch; bfloat16 has no numpy type
        torch = importlib.import_module("torch")
        whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        value = value.detach().view(whole[value.element_size()]).numpy()
    if not isinstance(value, np.ndarray):
        raise UsageError(
            f"argument '{name}' is a {type(value).__name__}; expected a numpy array, "
            "ptxsan.empty(...), a tensor on the CPU, a number, bytes or None"
        )
    return value


def _copied(named: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return arguments with memory of their own."""
    found: list[tuple[str, Any]] = []
    for name, value in named:
        if isinstance(value, Fresh):
            found.append((name, empty(value.array.shape, value.array.dtype)))
        elif value is None or isinstance(value, bytes | int | float | np.generic):
            found.append((name, value))
        else:
            found.append((name, _array(name, value).copy()))
    return found
