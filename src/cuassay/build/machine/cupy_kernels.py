"""CuPy's raw kernels without a GPU: compiled by NVRTC for an architecture, launched in the machine.

CuPy calls CUDA from native code that needs a GPU, so `cupy.RawKernel` and `cupy.RawModule` are
replaced, and what hands them tensors: arrays over a tensor's memory, streams, devices. CuPy's own
operations, and the kernels that it writes itself, are named as what needs a GPU. Interface:
cupy/_core/raw.pyx and cupy/cuda/function.pyx of 14.2.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import torch

from cuassay.build.cuda_facade import MULTIPROCESSORS
from cuassay.build.machine.launch import MachineLauncher
from cuassay.build.sources import with_own_lines
from cuassay.build.unavailable import note
from cuassay.errors import MissingToolError

_PATCHED = "__cuassay_ptx__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """What a candidate uses of a `cupy.ndarray`: the memory of a tensor, by address."""

    tensor: torch.Tensor

    @property
    def data(self) -> Any:
        """The array's memory: its address is `data.ptr`."""
        return SimpleNamespace(ptr=self.tensor.data_ptr())

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(self.tensor.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """The steps of the axes in bytes."""
        return tuple(step * self.tensor.element_size() for step in self.tensor.stride())

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.tensor.numel()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.tensor.ndim

    @property
    def dtype(self) -> Any:
        """The type of the elements, as NumPy has it."""
        return np.dtype(str(self.tensor.dtype).removeprefix("torch."))

    def reshape(self, *shape: Any) -> Array:
        """Return the array in another shape."""
        return Array(tensor=self.tensor.reshape(*shape))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols that others look for
            raise AttributeError(name)
        _need_a_gpu(f"cupy.ndarray.{name}")

    def __dlpack__(self, **_: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return self.tensor.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        with torch._C.DisableTorchFunction():
            kind, number = self.tensor.__dlpack_device__()
        return int(kind), number


def _need_a_gpu(what: str) -> NoReturn:
    failure = MissingToolError(
        f"the candidate uses {what}, which CuPy runs in native code on an NVIDIA GPU; only its raw "
        "kernels are executed on the cpu: judge it with --device cuda"
    )
    note(failure)
    raise failure


def _operator(name: str) -> Callable[..., NoReturn]:
    return lambda *_: _need_a_gpu(f"cupy.ndarray.{name}")


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    for _form in (f"__{_name}__", f"__r{_name}__", f"__i{_name}__"):
        setattr(Array, _form, _operator(_form))
for _name in ("lt", "le", "gt", "ge", "neg", "abs", "getitem", "setitem", "len", "iter", "float"):
    setattr(Array, f"__{_name}__", _operator(f"__{_name}__"))


@dataclass(slots=True)
class _Module:
    """A source, compiled when a kernel of it is first launched."""

    code: str
    options: tuple[str, ...]
    expressions: tuple[str, ...]
    arch: int
    launcher: MachineLauncher
    _made: tuple[str, dict[str, str]] | None = None

    def ptx(self) -> tuple[str, dict[str, str]]:
        """Return PTX, and names in it by expression. Raises CuPy's CompileException."""
        from ptxsan import nvrtc
        from ptxsan.errors import CompileError

        if self._made is None:
            own = with_own_lines(self.code, self.launcher.recorder.sources)
            try:
                self._made = nvrtc.compile_named(
                    own, self.expressions, arch=f"sm_{self.arch}", flags=self.options
                )
            except CompileError as error:
                kind: Any = importlib.import_module("cupy.cuda.compiler").CompileException
                raise kind(error.log, self.code, "kernel.cu", self.options) from None
        return self._made


@dataclass(slots=True)
class _Kernel:
    """A kernel of a module, called as CuPy's are."""

    module: _Module
    name: str
    max_dynamic_shared_size_bytes: int = 48 << 10
    attributes: dict[str, int] = field(default_factory=dict)

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *,
        shared_mem: int = 0, **_: Any,
    ) -> None:  # fmt: skip
        from cuassay.build.cuda.driver import parameter_bytes

        text, names = self.module.ptx()
        kernel = names.get(self.name, self.name)
        launcher = self.module.launcher
        function = launcher.module(text).functions[kernel]
        launcher(
            text, kernel, grid=_extents(grid), block=_extents(block), shared_bytes=shared_mem,
            arguments=parameter_bytes(function, list(map(_argument, args))),
        )  # fmt: skip

    def compile(self, **_: Any) -> None:
        """Compile the kernel's module now."""
        self.module.ptx()


def enable(launcher: MachineLauncher, *, arch: int) -> None:
    """Make this process's CuPy compile raw kernels for `arch` and launch through `launcher`.

    Must run before the candidate is imported. Where CuPy is not installed, importing it says so.
    """
    if importlib.util.find_spec("cupy") is None:
        return
    cupy: Any = importlib.import_module("cupy")
    if hasattr(cupy, _PATCHED):
        return
    setattr(cupy, _PATCHED, True)

    def module(
        code: str | None = None, *, path: str | None = None, options: Sequence[str] = (),
        name_expressions: Sequence[str] | None = None, **_: Any,
    ) -> Any:  # fmt: skip
        if code is None:
            with open(str(path), encoding="utf-8") as file:
                code = file.read()
        made = _Module(code, tuple(options), tuple(name_expressions or ()), arch, launcher)
        return SimpleNamespace(
            get_function=functools.cache(functools.partial(_Kernel, made)), compile=made.ptx
        )

    def kernel(code: str, name: str, options: Sequence[str] = (), *_: Any, **__: Any) -> _Kernel:
        return _Kernel(_Module(code, tuple(options), (), arch, launcher), name)

    for name, value in list(vars(cupy).items()):
        if callable(value) and not isinstance(value, type) and not name.startswith("_"):
            setattr(cupy, name, _beside_arrays(name, value))
    for name in ("ElementwiseKernel", "ReductionKernel", "fuse"):
        setattr(cupy, name, functools.partial(_own_kernel, f"cupy.{name}"))
    cupy.memoize = _memoize
    jit: Any = importlib.import_module("cupyx.jit")
    jit.rawkernel = functools.partial(_own_kernel, "cupyx.jit.rawkernel")
    cupy.RawModule, cupy.RawKernel = module, kernel
    for name in ("asarray", "from_dlpack", "fromDlpack"):
        setattr(cupy, name, _over_a_tensor(getattr(cupy, name, None)))
    for name, order in (("ascontiguousarray", "C"), ("asfortranarray", "F")):
        setattr(cupy, name, _over_a_tensor(getattr(cupy, name), order))
    for name in ("empty", "zeros", "ones"):
        setattr(cupy, name, _new_array(getattr(torch, name)))
        setattr(cupy, f"{name}_like", _new_like(getattr(torch, f"{name}_like")))
    device = functools.partial(_Device, arch)
    cupy.cuda.Device, cupy.cuda.Stream, cupy.cuda.ExternalStream = device, _Stream, _Stream
    cupy.cuda.get_current_stream = _Stream


class _Stream:
    """A stream or a device that is entered, used and waited for: its work has been done."""

    ptr = 0

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None: ...

    def use(self) -> _Stream:
        return self

    def synchronize(self) -> None: ...

    from_external = classmethod(lambda cls, *_: cls())


class _Device(_Stream):
    """The one device."""

    id = 0

    def __init__(self, arch: int, *_: Any) -> None:
        super().__init__()
        self.compute_capability = str(arch)
        self.attributes = {"MultiProcessorCount": MULTIPROCESSORS}


def _own_kernel(what: str, *_: Any, **__: Any) -> NoReturn:
    _need_a_gpu(what)


def _beside_arrays(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of CuPy's that says what it needs where it is given an array of ours."""

    @functools.wraps(real, updated=())
    def call(*given: Any, **named: Any) -> Any:
        if any(isinstance(one, Array) for one in (*given, *named.values())):
            _need_a_gpu(f"cupy.{name}")
        return real(*given, **named)

    return call


def _memoize(for_each_device: bool = False) -> Callable[..., Any]:  # there is one device
    return functools.cache


def _over_a_tensor(real: Callable[..., Any] | None, order: str = "") -> Callable[..., Any]:
    def make(value: Any, *others: Any, **named: Any) -> Any:
        wanted = str(named.get("order", order) or "K")
        if isinstance(value, Array):
            return Array(tensor=_in_order(value.tensor, wanted))
        if isinstance(value, torch.Tensor):
            return Array(tensor=_in_order(value, wanted))
        if real is None:
            raise TypeError(f"cupy makes no array of a {type(value).__name__}")
        return real(value, *others, **named)

    return make


def _new_array(make: Callable[..., torch.Tensor]) -> Callable[..., Array]:
    def new(shape: Any, dtype: Any = "float64", order: str = "C") -> Array:
        made = make(shape, dtype=_torch_type(dtype))
        # Its memory in the other order of axes, with what nobody has written still unwritten.
        return Array(tensor=_reversed(made.view(made.shape[::-1])) if order == "F" else made)

    return new


def _in_order(tensor: torch.Tensor, order: str) -> torch.Tensor:
    """Return a tensor, copied where its memory has not the order C or F that is asked for."""
    if order == "F":
        return _reversed(_reversed(tensor).contiguous())
    return tensor.contiguous() if order == "C" else tensor


def _reversed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.permute(*reversed(range(tensor.ndim)))


def _new_like(make: Callable[..., torch.Tensor]) -> Callable[..., Array]:
    def new(value: Any, dtype: Any = None, **_: Any) -> Array:
        like = value.tensor if isinstance(value, Array) else value
        return Array(tensor=make(like, dtype=None if dtype is None else _torch_type(dtype)))

    return new


def _torch_type(dtype: Any) -> torch.dtype:
    found: torch.dtype = getattr(torch, np.dtype(dtype).name)
    return found


def _argument(value: Any) -> Any:
    """Return the bytes of a kernel's argument, as CuPy passes it. Raises TypeError as CuPy does."""
    match value:
        case Array():
            value = np.uint64(value.data.ptr)
        case None:
            value = np.uint64(0)
        case bool():
            value = np.bool_(value)
        case int():
            value = np.uint64(value % 2**64)
        case float():
            value = np.float64(value)
        case complex():
            value = np.complex128(value)
        case np.generic() | np.ndarray():
            pass
        case _ if isinstance(getattr(value, "ptr", None), int):  # an address in CuPy's memory
            value = np.uint64(value.ptr)
        case _:
            raise TypeError(f"Unsupported type {type(value)}")
    return value.tobytes()


def _extents(given: Sequence[int]) -> tuple[int, int, int]:
    sizes = [int(one) for one in given]
    first, second, third = (*sizes, 1, 1)[:3]
    return first, second, third
