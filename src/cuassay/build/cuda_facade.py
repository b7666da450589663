"""`device="cuda"` on a machine without a GPU, so that Triton kernels run in the interpreter.

Candidates written for a GPU say `torch.empty(..., device="cuda")`, assert `x.is_cuda` and ask
`torch.cuda` for the number of multiprocessors. While the facade is entered, CPU tensors say
that they are on `cuda:0`, every request for that device gives CPU memory, and the questions
that candidates ask of `torch.cuda` have plain answers. Nothing is claimed about what needs the
device itself: streams do not overlap, graphs and inline PTX fail. Products with a scale for every
block, which torch has on GPUs alone, are made in float32.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from cuassay.block_scaled import BlockScaledProducts
from cuassay.dispatch_modes import OnCpu

if TYPE_CHECKING:
    from cuassay.build.machine.streams import CallStreams

_DEVICE = torch.device("cuda", 0)
MULTIPROCESSORS = 4  # persistent kernels launch this many programs: few, each takes 1 ms
_lock = threading.Lock()
_depth = 0
_originals: dict[tuple[Any, str], Any] = {}
streams: CallStreams | None = None  # where extensions have streams of their own
_capability = (9, 0)


def answer_for(architecture: int) -> None:
    """Answer from now on for a GPU of an architecture (100 for 10.0), none older than 9.0."""
    global _capability
    _capability = max((9, 0), divmod(architecture, 10))


class _Mode(OnCpu):
    """Rewrites devices in calls of torch functions and answers where a tensor on the CPU is."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch._scaled_mm:
            with BlockScaledProducts():
                return func(*args, **kwargs)
        answer = _ANSWERS.get(func)
        # Tensors without data, on `meta` or fake, stay where who made them put them: compilers ask.
        if answer is not None and args[0].device.type == "cpu":
            return answer(*args, **kwargs)
        if func is torch.Tensor.to:
            values = (*args[1:][:1], kwargs.get("device"))
            if any(
                value == "cpu" or (isinstance(value, torch.device) and value.type == "cpu")
                for value in values
                if isinstance(value, str | torch.device)
            ):
                return func(*args, **{**kwargs, "copy": True})  # a transfer is always a copy
        return super().__torch_function__(func, types, args, kwargs)


def _getter(name: str) -> Any:
    return getattr(torch.Tensor, name).__get__  # how a property arrives in a function mode


_types: Any = torch._tensor  # torch declares no types of what names them for other libraries


def _array_interface(tensor: torch.Tensor) -> dict[str, object]:
    with torch._C.DisableTorchFunction():
        if tensor.requires_grad:
            raise RuntimeError("a tensor that requires grad has no __cuda_array_interface__")
        size = tensor.element_size()
        steps = None if tensor.is_contiguous() else tuple(one * size for one in tensor.stride())
        place = tensor.data_ptr() if tensor.numel() else 0
        name_of: Any = torch._tensor._dtype_to_typestr
        return {
            "typestr": name_of(tensor.dtype), "strides": steps,
            "shape": tuple(tensor.shape), "data": (place, False), "version": 2,
        }  # fmt: skip


_ANSWERS: dict[Any, Callable[..., Any]] = {  # of a tensor on the CPU
    torch.Tensor.pin_memory: lambda tensor, *_, **__: tensor,
    torch.Tensor.get_device: lambda *_: 0,
    torch.Tensor.cpu: lambda tensor, *_, **__: tensor.clone(),
    _getter("__cuda_array_interface__"): _array_interface,
    _getter("is_cuda"): lambda *_: True,
    _getter("is_cpu"): lambda *_: False,
    _getter("device"): lambda *_: _DEVICE,
}


class _Nothing:
    """A stream, an event or a device context that does nothing, in order."""

    cuda_stream = 0
    device = _DEVICE

    def __init__(self, *_: object, **__: object) -> None:
        self._time = 0.0

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None: ...

    def record(self, *_: object) -> None:
        self._time = time.perf_counter()

    def elapsed_time(self, end: _Nothing) -> float:
        return (end._time - self._time) * 1e3  # milliseconds, as torch.cuda.Event

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        _wait_for_all()

    def wait_stream(self, *_: object) -> None: ...
    def wait_event(self, *_: object) -> None: ...
    def wait(self, *_: object) -> None: ...


class _Current(_Nothing):
    """The caller's stream: what an extension is given of it is its number."""

    @property
    def cuda_stream(self) -> int:  # type: ignore[override]
        return 0 if streams is None else streams.stream


def _wait_for_all(*_: object, **__: object) -> None:
    if streams is not None:
        streams.wait()


def _properties(*_: object) -> SimpleNamespace:
    return SimpleNamespace(
        name="Triton interpreter (no GPU)",
        major=_capability[0],
        minor=_capability[1],
        multi_processor_count=MULTIPROCESSORS,
        total_memory=2**33,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472,
        L2_cache_size=2**25,
    )


def _constant(value: object) -> Callable[..., object]:
    return lambda *_, **__: value


_TORCH_CUDA: dict[str, Any] = {
    "is_available": _constant(True),
    "is_initialized": _constant(True),
    "is_bf16_supported": _constant(True),
    "is_current_stream_capturing": _constant(False),
    "device_count": _constant(1),
    "current_device": _constant(0),
    "get_device_capability": lambda *_: _capability,
    "get_device_name": _constant("Triton interpreter (no GPU)"),
    "get_device_properties": _properties,
    "memory_allocated": _constant(0),
    "max_memory_allocated": _constant(0),
    "current_stream": _Current,
    "synchronize": _wait_for_all,
    "default_stream": _Nothing,
    "stream": _Nothing,
    "device": _Nothing,
    "device_of": _Nothing,
    "_DeviceGuard": _Nothing,
    "_exchange_device": _constant(0),
    "_maybe_exchange_device": _constant(0),
    "Stream": _Nothing,
    "Event": _Nothing,
    **{
        name: _constant(None)
        for name in (
            "set_device",
            "set_stream",
            "empty_cache",
            "manual_seed",
            "init",
        )
    },
}


_ABSENT = object()  # what a torch that was built without CUDA lacks
_REPLACED: dict[tuple[Any, str], Any] = {
    **{(torch.cuda, name): answer for name, answer in _TORCH_CUDA.items()},
    # Else torch's recurrent layers call cuDNN on weights that say they are on a GPU.
    (torch.backends.cudnn, "is_acceptable"): _constant(False),
    # What code that torch.compile wrote asks of torch's insides.
    (torch._C, "_cuda_getCurrentRawStream"): _constant(0),
    (torch._C, "_cuda_setDevice"): _constant(None),
    (torch._C._dynamo.guards, "_empty_strided_cuda"): (
        lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype)
    ),
    # Before it asks a mode, torch wants a stream of its own kind.
    (torch.Tensor, "record_stream"): _constant(None),
}


@contextlib.contextmanager
def cuda_facade() -> Iterator[None]:
    """Answer for a GPU in this block; nests, and may be entered on several threads."""
    global _depth
    with _lock:
        if _depth == 0:
            for (owner, name), replacement in _REPLACED.items():
                _originals[owner, name] = getattr(owner, name, _ABSENT)
                setattr(owner, name, replacement)
        _depth += 1
    try:
        with _Mode():
            yield
    finally:
        with _lock:
            _depth -= 1
            for (owner, name), original in _originals.items() if _depth == 0 else ():
                # what a candidate put in its place stays, as it would on a GPU
                if getattr(owner, name, _ABSENT) is not _REPLACED[owner, name]:
                    continue
                if original is _ABSENT:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)
            if _depth == 0:
                _originals.clear()
