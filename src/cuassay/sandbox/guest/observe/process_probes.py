"""What there is to know of process-wide state: a reading each of flags, generators, functions.

All that is needed to read is taken when this module is imported, which a worker does before
its candidate exists. Names begin with a kind: flag, generator, seed, function (what measures
and compares), library (what computes), environment, process.
"""

from __future__ import annotations

import builtins
import gc
import hashlib
import locale
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

Reading = Callable[[], object]
_C = torch._C
_GETTERS = {
    "torch.backends.cuda.matmul.allow_tf32": "_get_cublas_allow_tf32",
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction": (
        "_get_cublas_allow_fp16_reduced_precision_reduction"
    ),
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction": (
        "_get_cublas_allow_bf16_reduced_precision_reduction"
    ),
    "torch.backends.cuda.matmul.allow_fp16_accumulation": "_get_cublas_allow_fp16_accumulation",
    "torch.backends.cudnn.enabled": "_get_cudnn_enabled",
    "torch.backends.cudnn.benchmark": "_get_cudnn_benchmark",
    "torch.backends.cudnn.deterministic": "_get_cudnn_deterministic",
    "torch.backends.cudnn.allow_tf32": "_get_cudnn_allow_tf32",
    "torch.backends.mkldnn.enabled": "_get_mkldnn_enabled",
    "torch.backends.mkldnn.deterministic": "_get_mkldnn_deterministic",
    "torch.backends.cuda.flash_sdp_enabled": "_get_flash_sdp_enabled",
    "torch.backends.cuda.mem_efficient_sdp_enabled": "_get_mem_efficient_sdp_enabled",
    "torch.backends.cuda.math_sdp_enabled": "_get_math_sdp_enabled",
    "torch.backends.cuda.cudnn_sdp_enabled": "_get_cudnn_sdp_enabled",
    "torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed": (
        "_get_math_sdp_allow_fp16_bf16_reduction"
    ),
    "torch.float32_matmul_precision": "_get_float32_matmul_precision",
    "torch.deterministic_algorithms": "_get_deterministic_algorithms",
    "torch.deterministic_algorithms.warn_only": "_get_deterministic_algorithms_warn_only",
    "torch.utils.deterministic.fill_uninitialized_memory": (
        "_get_deterministic_fill_uninitialized_memory"
    ),
    "torch function modes": "_len_torch_function_stack",
    "torch dispatch modes": "_len_torch_dispatch_stack",
}
_PRECISIONS = tuple(
    (backend, operator) for backend in ("cuda", "mkldnn") for operator in ("matmul", "conv", "rnn")
)
_MEASURING = (
    (time, "time perf_counter perf_counter_ns monotonic time_ns process_time sleep"),
    (torch, "equal allclose isclose isnan isfinite"),
    (torch.cuda, "synchronize Event Stream stream current_stream"),
    (torch.cuda.Event, "record synchronize elapsed_time query wait"),
    (torch.Tensor, "equal allclose isclose copy_ cpu item tolist numpy clone data_ptr __eq__"),
    (torch.testing, "assert_close"),
    (builtins, "print open"),
)
_COMPUTING = (
    (torch, "empty empty_like zeros ones randn matmul mm bmm addmm einsum softmax sum manual_seed"),
    (
        torch.Tensor,
        "to contiguous view reshape float sum mul add matmul __matmul__ __mul__",
    ),
    (
        torch.nn.functional,
        "linear softmax log_softmax cross_entropy layer_norm rms_norm group_norm gelu silu "
        "embedding dropout scaled_dot_product_attention conv1d conv2d",
    ),
    (torch.nn.Module, "__call__"),
)
# Set by our own build (see `build`), so that they say nothing about a candidate.
_OUR_VARIABLES = frozenset(
    (
        *("TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR"),
        *("TRITON_INTERPRET", "CUDA_HOME", "TORCH_CUDA_ARCH_LIST", "MAX_JOBS"),
    )
)
_TORCH = os.path.dirname(torch.__file__) + os.sep
_CUDA_IS_UP: Callable[[], bool] = torch.cuda.is_initialized
_SMALLEST, _HALF = sys.float_info.min, 0.5


def _named(kind: str, groups: tuple[tuple[Any, str], ...]) -> Iterator[tuple[str, Any, str, Any]]:
    for holder, names in groups:
        path = getattr(holder, "__qualname__", "") and f"{holder.__module__}.{holder.__qualname__}"
        for name in names.split():
            kept = getattr(holder, name, None)
            if kept is not None:
                yield f"{kind} {path or holder.__name__}.{name}", holder, name, kept


# Kept alive here, so that an identity stays that of one object.
_FUNCTIONS = (*_named("function", _MEASURING), *_named("library", _COMPUTING))


def short_digest(data: object) -> str:
    """Return a short digest of bytes or of what an object shows as text."""
    raw = data if isinstance(data, bytes) else repr(data).encode()
    return hashlib.sha256(raw).hexdigest()[:16]


def readings() -> dict[str, Reading]:
    """Return the readings of flags, generators and most of the process, by name."""
    get = getattr(_C, "_get_fp32_precision_getter", None)
    if get is None:
        precisions = {}
    else:

        def read(backend: str, operator: str) -> str:
            found = str(get(backend, operator))
            return "ieee" if found == "none" else found  # nothing said: nothing allowed

        precisions = {
            f"flag torch.backends.{backend}.{operator}.fp32_precision": partial(
                read, backend, operator
            )
            for backend, operator in _PRECISIONS
        }
    return {
        **{f"flag {name}": getattr(_C, get) for name, get in _GETTERS.items() if hasattr(_C, get)},
        **precisions,
        "flag torch default dtype": torch.get_default_dtype,
        "flag torch default device": torch.get_default_device,
        "flag torch grad mode": torch.is_grad_enabled,
        "flag torch inference mode": torch.is_inference_mode_enabled,
        "flag torch anomaly mode": torch.is_anomaly_enabled,
        "flag autocast on cpu": partial(torch.is_autocast_enabled, "cpu"),
        "flag autocast on cuda": partial(torch.is_autocast_enabled, "cuda"),
        "flag autocast dtype on cpu": partial(torch.get_autocast_dtype, "cpu"),
        "flag autocast dtype on cuda": partial(torch.get_autocast_dtype, "cuda"),
        "flag torch threads": torch.get_num_threads,
        "flag torch interop threads": torch.get_num_interop_threads,
        "flag denormal numbers": lambda: "kept" if _SMALLEST * _HALF else "flushed to zero",
        "flag rounding": lambda: "to nearest" if 1.0 + _SMALLEST == 1.0 - _SMALLEST else "directed",
        "generator torch on cpu": lambda: _tensor_digest(torch.get_rng_state()),
        "generator random": lambda: short_digest(random.getstate()),
        "generator numpy.random": _numpy_generator,
        "seed of torch on cpu": lambda: short_digest(torch.initial_seed()),
        "process working directory": os.getcwd,
        "process umask": _umask,
        "process sys.settrace": lambda: _identity(sys.gettrace()),
        "process sys.setprofile": lambda: _identity(sys.getprofile()),
        "process threading.settrace": lambda: _identity(threading.gettrace()),
        "process sys.excepthook": lambda: _identity(sys.excepthook),
        "process sys.displayhook": lambda: _identity(sys.displayhook),
        "process sys.unraisablehook": lambda: _identity(sys.unraisablehook),
        "process recursion limit": sys.getrecursionlimit,
        "process garbage collector": lambda: "on" if gc.isenabled() else "off",
        "process locale": lambda: locale.setlocale(locale.LC_ALL),
        "process numpy errors": _numpy_errors,
        **(_cuda() if _CUDA_IS_UP() else {}),
    }


def _tensor_digest(state: torch.Tensor) -> str:
    return short_digest(state.numpy().tobytes())


def _numpy_generator() -> str:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return "not imported"
    state = numpy.random.get_state()
    return short_digest(state[1].tobytes() + repr(state[2:]).encode())


def _cuda() -> dict[str, Reading]:
    device = torch.cuda.current_device()
    return {
        "generator torch on cuda": lambda: _tensor_digest(torch.cuda.get_rng_state(device)),
        "seed of torch on cuda": lambda: short_digest(torch.cuda.initial_seed()),
        "process current CUDA device": torch.cuda.current_device,
        "process current CUDA stream": lambda: torch.cuda.current_stream().cuda_stream,
    }


def _umask() -> str:
    now = os.umask(0o077)
    os.umask(now)
    return oct(now)


def deaf() -> dict[str, str]:
    """Return whether a filter ignores every warning, so that no caller sees its own."""
    ignored = any(
        action == "ignore" and category is Warning and message is None and module is None
        for action, message, category, module, _ in warnings.filters
    )
    return {"process every warning ignored": str(ignored)}


def _numpy_errors() -> str:
    numpy = sys.modules.get("numpy")
    return "not imported" if numpy is None else str(numpy.geterr())


def _identity(value: object) -> str:
    if value is None:
        return "none"
    name = getattr(value, "__qualname__", "") or type(value).__qualname__
    return f"{getattr(value, '__module__', '')}.{name} at {id(value):x}"


def functions() -> dict[str, str]:
    """Return who each watched function is, by name."""
    whos = {}
    for name, holder, attribute, kept in _FUNCTIONS:
        # Who a function is; torch's own replacements of its functions are no news. Compiling a
        # function replaces `torch.manual_seed`, for one. The file of its code tells whose it is:
        # its module's name is copied by `functools.wraps`.
        found = getattr(holder, attribute, None)
        code = getattr(found, "__code__", None)
        if found is kept or str(getattr(code, "co_filename", "")).startswith(_TORCH):
            whos[name] = "as imported"
        else:
            whos[name] = _identity(found)
    return whos


def identities() -> dict[str, str]:
    """Return which object each watched function is now, by name; torch's own are alike."""
    found = {}
    for name, holder, attribute, _ in _FUNCTIONS:
        now = getattr(holder, attribute, None)
        file = str(getattr(getattr(now, "__code__", None), "co_filename", ""))
        found[name] = "as imported" if file.startswith(_TORCH) else _identity(now)
    return found


def signals() -> dict[str, str]:
    """Return the handler of every signal, by name."""
    found = {}
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        text = handler.name if isinstance(handler, signal.Handlers) else _identity(handler)
        name = number.name if isinstance(number, signal.Signals) else f"signal {number}"
        found[f"process handler of {name}"] = text
    return found


def variables(source: Mapping[str, str]) -> dict[str, str]:
    """Return a digest of each environment variable that is not our own build's, by name."""
    return {
        f"environment {name}": short_digest(value)
        for name, value in list(source.items())
        if name not in _OUR_VARIABLES
    }
