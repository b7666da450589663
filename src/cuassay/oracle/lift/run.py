"""Run any PyTorch reference in float64 (or float32) without changing its source.

Every floating tensor inside the reference carries its value in lifted precision and reports
the dtype that it would have as written (`nominal_of`). Casts among 16-, 32- and 64-bit
floats, explicit or implied, therefore round nothing; casts to integers, bool and 8- or 4-bit
floats are part of the operator's meaning and happen for real. The caller's inputs, and
tensors that the reference finds outside itself, are copied, never written.

What the dispatcher cannot see (bit reinterpretation, custom kernels, `.numpy()`, raw
pointers) raises LiftError with the operation and the reference's source line.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeAlias

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from cuassay.block_scaled import BlockScaledProducts, is_missing_product
from cuassay.dispatch_modes import tensors_in
from cuassay.errors import CuassayError, LiftError, ReferenceError_
from cuassay.hooks import Following, Hook
from cuassay.oracle.lift.functions import LiftFunctions
from cuassay.oracle.lift.index_range import called
from cuassay.oracle.lift.inputs import copied, copied_as, is_borrowed
from cuassay.oracle.lift.session import BorrowedWrite, HookFailure, LiftMode, Session
from cuassay.oracle.lift.source import failing_line, source_line
from cuassay.oracle.lift.tensor import LIFTABLE, Lifted, lifted_dtype, nominal_of
from cuassay.oracle.lift.together import TogetherSession

__all__ = ["Hook", "Value", "lift", "lift_together", "nominal_of", "run_as_written", "source_line"]

_MEMORY_ERRORS = (
    "Cannot access data pointer",
    "doesn't have storage",
    "is not supported for tensor subclasses",
)
Value: TypeAlias = torch.Tensor | float | int | bool


def lift(
    fn: Callable[..., object],
    inputs: Sequence[Value],
    *,
    to: torch.dtype = torch.float64,
    hook: Hook | None = None,
    names: Sequence[str] | None = None,
) -> tuple[torch.Tensor, ...]:
    """Return the outputs of `fn(*inputs)` computed with every float lifted to `to`.

    Floating outputs come in `to` (complex ones in its pair type, 8-bit floats as their
    rounded values in `to`); integers and bool in their own dtypes; `nominal_of` tells the
    dtype as written. Nested results are flattened in order, a dict in the order of `names`
    or its own. Random draws use the generator as written. Large inputs are not copied, unless
    the reference writes into one of them.

    Raises LiftError for what cannot be lifted and ReferenceError_ for the reference's own
    exceptions; a hook's exception and an out-of-memory error pass through unchanged.
    """
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    borrowed = [] if isinstance(hook, Following) else list(filter(is_borrowed, tensors))
    if borrowed:
        kept = [(one, one.get_state()) for one in default_generators(borrowed[0].device)]
        with suppress(BorrowedWrite):
            return _lifted(fn, inputs, Session(to, hook), names=names, borrow=True)
        for generator, state in kept:  # as if that run had not been
            generator.set_state(state)
    return _lifted(fn, inputs, Session(to, hook), names=names, borrow=False)


def lift_together(
    fn: Callable[..., object],
    inputs: Sequence[Value],
    count: int,
    *,
    hook: Hook,
    names: Sequence[str] | None = None,
) -> tuple[torch.Tensor, ...]:
    """Return the outputs of `count` float64 runs of `fn(*inputs)`, each (count, ...).

    `hook` makes the runs differ (`lift.together`). Raises as `lift`, and NotTogether where the runs
    have to be made one after another.
    """
    session = TogetherSession(torch.float64, hook, count)
    with warnings.catch_warnings():  # operations that torch makes run by run
        warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
        return _lifted(fn, inputs, session, names=names, borrow=False)


def _lifted(
    fn: Callable[..., object],
    inputs: Sequence[Value],
    session: Session,
    *,
    names: Sequence[str] | None,
    borrow: bool,
) -> tuple[torch.Tensor, ...]:
    """Return what `lift` does. With `borrow`, raises BorrowedWrite for a write into an input."""
    to, hook = session.to, session.hook
    with _backends(to):
        arguments = copied_as(inputs, to, session, borrow=borrow)
        if isinstance(hook, Following):
            for argument in tensors_in(arguments):
                if isinstance(argument, Lifted):
                    hook.given(argument.payload)
        try:
            with LiftMode(session), LiftFunctions(session):
                result = fn(*arguments)
        except HookFailure as failure:
            raise failure.error from None
        except (CuassayError, torch.OutOfMemoryError, KeyboardInterrupt):
            raise
        except (Exception, SystemExit) as error:
            raise _unliftable(error) or _own_failure(fn, error) from error
        outputs = []
        for item in _flat(result, names):
            nominal: torch.dtype = item.dtype
            packed = "x2" in str(nominal)  # pairs of 4-bit numbers
            wanted: torch.dtype | None = None
            if nominal in LIFTABLE or (nominal.is_floating_point and not packed):
                wanted = lifted_dtype(nominal, to) if nominal.is_complex else to
            out: Any = session.output(item, wanted)
            out.cuassay_nominal = nominal
            outputs.append(out)
        return tuple(outputs)


def default_generators(device: torch.device) -> list[torch.Generator]:
    """Return what draws where no generator is given: the CPU's, and that of a CUDA device."""
    generators = [torch.default_generator]
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        generators.append(torch.cuda.default_generators[index])
    return generators


def run_as_written(
    fn: Callable[..., object], inputs: Sequence[Value], *, names: Sequence[str] | None = None
) -> tuple[torch.Tensor, ...]:
    """Return the outputs of `fn(*inputs)` as they are, in their own dtypes, on copied inputs.

    Raises ReferenceError_ for the reference's own exceptions.
    """
    products = BlockScaledProducts()
    for around in (nullcontext(), products):  # such products again, where that was what failed
        try:
            with torch.inference_mode(False), torch.enable_grad(), around:
                result = called(lambda: fn(*copied(inputs)), inputs)
            break
        except (CuassayError, torch.OutOfMemoryError, KeyboardInterrupt):
            raise
        except (Exception, SystemExit) as error:
            if around is products or not is_missing_product(error):
                raise _own_failure(fn, error) from error
    return tuple(item.detach() for item in _flat(result, names))


@contextmanager
def _backends(to: torch.dtype) -> Iterator[None]:
    """Keep composite operators on exact paths that exist in `to`; restored afterwards.

    float32 must be float32: TF32 in convolutions, on by default, is not.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    onednn = torch._C._get_mkldnn_enabled()
    cudnn: Any = torch.backends.cudnn  # its stub does not know the units
    units = [torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn]
    exact = units if to is torch.float32 else []
    before = [unit.fp32_precision for unit in exact]
    # The older setting has to agree, or references that ask for it are refused an answer.
    older: bool | None = None
    with suppress(RuntimeError):  # somebody's settings disagree already
        older = cudnn.allow_tf32
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._set_mkldnn_enabled(False)
    compiles = "torch._dynamo" in sys.modules  # then compiled functions run eagerly
    try:
        if exact:
            cudnn.allow_tf32 = False
        for unit in exact:
            unit.fp32_precision = "ieee"
        with (
            sdpa_kernel(SDPBackend.MATH),
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.compiler.set_stance("force_eager") if compiles else nullcontext(),
        ):
            yield
    finally:
        if exact and older is not None:
            cudnn.allow_tf32 = older
        for unit, precision in zip(exact, before, strict=True):
            unit.fp32_precision = precision
        torch._C._set_mkldnn_enabled(onednn)
        torch.backends.mha.set_fastpath_enabled(fast)


def _unliftable(error: BaseException) -> LiftError | None:
    """Return what a compiled extension's attempt to read lifted memory really means."""
    if not any(text in str(error) for text in _MEMORY_ERRORS):
        return None
    why = "it reads a tensor's memory outside torch (a compiled extension or kernel)"
    return LiftError("a call that torch does not dispatch", failing_line(error), why)


def _own_failure(fn: Callable[..., object], error: BaseException) -> ReferenceError_:
    name = getattr(fn, "__name__", "the reference")
    what = f"{type(error).__name__}: {error}".strip()
    return ReferenceError_(f"the reference '{name}' failed at {failing_line(error)}: {what}")


def _flat(result: object, names: Sequence[str] | None) -> list[torch.Tensor]:
    """Return the tensors of a result in order; numbers become 0-d tensors."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, bool | int | float | complex):
        wide = torch.float64 if isinstance(result, float) else None
        return [torch.tensor(result, dtype=wide)]
    if isinstance(result, Mapping):
        missing = [name for name in names or () if name not in result]
        if missing:
            have = ", ".join(map(str, result)) or "nothing"
            raise ReferenceError_(f"the reference returned {have}, but no '{missing[0]}'")
        return [t for name in names or result for t in _flat(result[name], names)]
    if isinstance(result, Sequence) and not isinstance(result, str | bytes):
        return [tensor for item in result for tensor in _flat(item, names)]
    kind = type(result).__name__
    raise ReferenceError_(
        f"the reference returned {kind}, expected a tensor, a number, or a tuple, list or dict "
        "of them"
    )
