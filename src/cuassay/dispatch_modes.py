"""Dispatch modes around other people's code: neither traced by torch's compiler, nor in its way."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeVar, cast

import torch
from torch._compile import _disable_dynamo
from torch._decomp import global_decomposition_table
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _pop_mode_temporarily,
)

from cuassay.without_sympy import sizes_are_numbers

T = TypeVar("T")
M = TypeVar("M", bound="UntracedMode")
_SEQUENCES, _NUMBERS = (list, tuple), (int, float)
_NOT_TRACED = "__dynamo_disable"  # what torch._compile calls in a function's place
_CONSTANT_ELEMENTS = 256  # of a tensor that keeps its numbers where others have none


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors in nested lists, tuples and mappings, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if not isinstance(value, _SEQUENCES):
        if not isinstance(value, Mapping):
            return []
        value = value.values()
    found: list[torch.Tensor] = []
    for item in value:
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif not isinstance(item, _NUMBERS):
            found += tensors_in(item)
    return found


class NumberNeeded(NotImplementedError):
    """Code reads a number of a tensor that has none: whatever stands for the tensor, it would."""


class OnCpu(TorchFunctionMode):
    """Gives memory of the CPU where a call of torch asks for that of a GPU.

    `torch.device("cuda")` stays what it says: it is mapped where memory is asked for.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch, with the CPU for each GPU that an argument names."""
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda:
            return args[0]
        if func is not torch.device:
            args = tuple(_CPU if _is_gpu(value) else value for value in args)
            kwargs = {name: _CPU if _is_gpu(value) else value for name, value in kwargs.items()}
        return func(*args, **kwargs)


_CPU = torch.device("cpu")


def _is_gpu(value: object) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


def without_memory(call: Callable[[], T]) -> T:
    """Return what `call` returns where every tensor that it makes has a size and no memory.

    Tensors from outside may be used too. First their device is `meta`, on which torch's own
    operations need nothing else; what fails there is called again on fake tensors, which know
    devices and what custom operators return, and for which torch loads its compiler, one to three
    seconds. What that raises is raised: that fakes refuse an operation is an answer here. Code that
    reads a number (NumberNeeded) is not called again, nor what raised by itself without asking for
    a device: it would do the same.

    On `meta`, a short tensor that follows from numbers alone (`linspace(0, 0.1, 12)`) has its
    values, until something without any is written into it: code may read them back.
    """
    return WithoutMemory()(call)


def on_fakes(call: Callable[[], T]) -> T:
    """Return what `call` returns on torch's fake tensors; raises what it raises."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.disabled
    logger.disabled = True
    try:
        with warnings.catch_warnings(), FakeTensorMode(allow_non_fake_inputs=True):
            warnings.simplefilter("ignore")
            return call()
    finally:
        logger.disabled = before


class WithoutMemory:
    """`without_memory` for calls of one piece of code at many sizes.

    Once it came to its end on the device `meta`, what fails there at other sizes is refused:
    fake tensors would say the same.
    """

    def __init__(self) -> None:
        self._on_meta = False

    def __call__(self, call: Callable[[], T]) -> T:
        """Return what `call` returns; raises what it raises."""
        try:
            with _meta() as functions:
                found = call()
        except Exception as error:
            told = error.__cause__ or error
            refused = not functions.device_asked and _refuses_itself(told)
            if self._on_meta or refused or isinstance(told, NumberNeeded):
                raise
            return on_fakes(call)
        self._on_meta = True
        return found


def on_meta_alone(call: Callable[[], T]) -> T:
    """Return what `call` returns on the device `meta`; raises what it raises, as torch lacks it."""
    with _meta():
        return call()


@contextlib.contextmanager
def _meta() -> Iterator[_Functions]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            untraced_meta_functions(),
            _Meta(constants=True) as mode,
            _Functions(mode) as functions,
        ):
            yield functions


def _refuses_itself(error: BaseException) -> bool:
    """Whether neither torch nor a mode of ours raised an error, but the code that they run.

    Every operation of torch is called below one of our modes.
    """
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    name = "" if place is None else str(place.tb_frame.f_globals.get("__name__", ""))
    return bool(name) and name.partition(".")[0] not in ("torch", "cuassay")


def on_meta(func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Return what an operation of torch returns, with sizes and strides and without data.

    Inside of `untraced_meta_functions`. Raises what the operation raises on the device `meta`.
    """
    with _Meta() as mode:
        given = pytree.tree_map_only(torch.Tensor, mode.without_data, (tuple(args), dict(named)))
        return func(*given[0], **given[1])


class UntracedMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Base of every mode of ours.

    To exempt a mode from tracing torch imports torch._dynamo, a second, at the first operation;
    the attribute that is set here exempts it without.

    A subclass of torch.Tensor without a `__new__` of its own, such as torch's causal attention
    bias, cannot be made below a mode that is written in Python: the mode hands the constructor a
    Tensor object, which it refuses to give another type. Such a constructor runs outside of
    ours, so that what it allocates is not seen.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)  # type: ignore[no-untyped-call]
        dispatch: Any = cls.__torch_dispatch__
        dispatch._torchdynamo_disable = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __enter__(self) -> Any:
        _CONSTRUCTORS.moved_outside()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *raised: Any) -> None:
        try:
            super().__exit__(*raised)  # type: ignore[no-untyped-call]
        finally:
            _CONSTRUCTORS.moved_back()


def outside_of_compiler(mode: type[M]) -> type[M]:
    """Return a mode that torch's compiler leaves alone; `mode` itself where none is loaded.

    To make the one of the other loads the compiler: a second or two of a process that compiles
    nothing.
    """
    if "torch._dynamo" not in sys.modules:
        return mode
    made: Any = mode  # a type that mypy takes for a key
    exempted: type[M] = _exempted(made)
    return exempted


@functools.cache
def _exempted(mode: Any) -> Any:
    dispatch: Any = mode.__torch_dispatch__

    def same(
        self: Any, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return dispatch(self, func, types, args, kwargs)

    own = {"_should_skip_dynamo": classmethod(lambda cls: True), "__torch_dispatch__": same}
    return type(mode.__name__, (mode,), own)


class _Meta(UntracedMode):
    """Makes every tensor on the device `meta`, and takes those of others there.

    With `constants`, short tensors that follow from numbers alone are made on the CPU.
    """

    def __init__(self, *, constants: bool = False) -> None:
        super().__init__()
        self._taken: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by id, kept alive
        self._constants = constants
        self._stale: dict[int, torch.Tensor] = {}  # by storage: written to without data

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation where it allocates nothing."""
        named = dict(kwargs or {})
        given = [one for one in pytree.tree_leaves((args, named)) if isinstance(one, torch.Tensor)]
        makes = any(one.name == "device" for one in func._schema.arguments)
        if self._constants and self._is_constant(func, given, args, named):
            return func(*args, **{**named, "device": torch.device("cpu"), "pin_memory": None})
        if any(map(self.has_no_data, given)) or (makes and (not given or named.get("device"))):
            if func is torch.ops.aten._local_scalar_dense.default:
                raise NumberNeeded("a number is read that nobody knows without data")
            if func._schema.is_mutable:
                self._stale |= {storage_of(one): one for one in given if not one.is_meta}
            args, named = pytree.tree_map_only(torch.Tensor, self.without_data, (args, named))
            if makes:
                named["device"] = torch.device("meta")
                named.pop("pin_memory", None)
            if "generator" in named:
                named["generator"] = None
            if makes and torch.Tag.nondeterministic_seeded in func.tags:
                # What random numbers would fill: torch's own functions load the compiler.
                names = [argument.name for argument in func._schema.arguments]
                by_name = {**dict(zip(names, args, strict=False)), **named}
                if "size" not in by_name:  # as another tensor, or up to a number
                    made: torch.Tensor = func(*args, **named)
                    return made
                dtype = by_name.get("dtype") or (torch.int64 if "high" in names else None)
                return torch.empty(by_name["size"], dtype=dtype, device="meta")
        return func(*args, **named)

    def has_no_data(self, tensor: torch.Tensor) -> bool:
        """Whether nobody knows the numbers of a tensor."""
        return tensor.is_meta or storage_of(tensor) in self._stale

    def _is_constant(
        self,
        func: Any,
        given: Sequence[torch.Tensor],
        args: Sequence[Any],
        named: Mapping[str, Any],
    ) -> bool:
        """Whether an operation makes a short tensor of numbers alone, or moves such a one."""
        if func is torch.ops.aten._to_copy.default:
            return not self.has_no_data(given[0]) and given[0].numel() <= _CONSTANT_ELEMENTS
        if given or func.overloadpacket not in _constant_makers():
            return False
        meta = {**named, "device": torch.device("meta"), "pin_memory": None}
        made: torch.Tensor = func(*args, **meta)
        return made.numel() <= _CONSTANT_ELEMENTS

    def without_data(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor's size and strides on the device `meta`, the same for the same one."""
        if tensor.is_meta:
            return tensor
        if id(tensor) not in self._taken:
            self._taken[id(tensor)] = (
                tensor,
                torch.empty_strided(
                    tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta"
                ),
            )
        return self._taken[id(tensor)][1]


def storage_of(tensor: torch.Tensor) -> int:
    """Return what tells the storage of a tensor from others that live, also without memory."""
    return int(tensor.untyped_storage()._cdata)


@functools.cache
def _constant_makers() -> frozenset[Any]:
    """Return the operations that make a tensor of numbers alone, without drawing any."""
    aten = torch.ops.aten
    names = "arange linspace logspace full zeros ones eye scalar_tensor tril_indices triu_indices"
    return frozenset(getattr(aten, name) for name in names.split())


@contextlib.contextmanager
def untraced_meta_functions() -> Iterator[None]:
    """Let torch's functions for the device `meta` run without torch's compiler, and without sympy.

    Some of them are never to be traced, and load the compiler to say so when they are called the
    first time. What they keep for later is taken away again: a compiler that comes must be told.
    """
    told = () if "torch._dynamo" in sys.modules else _meta_functions()
    for function in told:
        vars(function).setdefault(_NOT_TRACED, function)
    try:
        with sizes_are_numbers():
            yield
    finally:
        for function in told:
            vars(function).pop(_NOT_TRACED, None)


@functools.cache
def _meta_functions() -> tuple[Any, ...]:
    """Return the functions behind torch's functions for the device `meta` that are not traced.

    At any depth of wrappers, and by what those hold, not by what they say: `__wrapped__` of a
    wrapper that took over another function's name is that other function.
    """
    told = _disable_dynamo(lambda: None).__code__
    left = [one for table in global_decomposition_table.values() for one in table.values()]
    seen: set[int] = set()
    found: list[Any] = []
    while left:
        one = left.pop()
        if not isinstance(one, FunctionType) or id(one) in seen:
            continue
        seen.add(id(one))
        # `held` is what a function holds of the functions around it.
        held = []
        for cell in one.__closure__ or ():
            with contextlib.suppress(ValueError):  # not bound yet
                held.append(cell.cell_contents)
        if one.__code__ is told:
            found += [value for value in held if isinstance(value, FunctionType)]
        left += held
    return tuple(found)


class _Functions(TorchFunctionMode):
    """What functions of torch do where tensors hold no data.

    Attention is refused: how much memory it takes depends on the device's fused kernels. Recurrent
    layers are the products of all their steps at once: step by step they take minutes of Python.
    Numbers that went stale on the device `meta` are not read. `device_asked`: whether code asked
    where a tensor is.
    """

    def __init__(self, mode: _Meta) -> None:
        super().__init__()
        self._mode = mode
        self.device_asked = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch."""
        self.device_asked |= getattr(func, "__self__", func) in _PLACES
        if func is torch.nn.functional.scaled_dot_product_attention:
            raise NotImplementedError("a fake tensor knows which kernel its device takes")
        if func in _RECURRENT and not kwargs and not isinstance(args[2], torch.Tensor):
            return _recurrent(func, *args)
        if func in _READERS and self._mode.has_no_data(args[0]):
            raise NumberNeeded("a tensor without data has no numbers")
        if func is torch.Tensor.data_ptr and self._mode.has_no_data(args[0]):
            # Here it is 0, on fake tensors as well: a kernel that reads there ends a GPU's use.
            raise NumberNeeded("a tensor without data has no address")
        return func(*args, **(kwargs or {}))


_READERS = (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__)
_TENSOR: Any = torch.Tensor  # whose stub knows properties as what they return
_PLACES = (_TENSOR.device, _TENSOR.is_cuda, _TENSOR.is_cpu, _TENSOR.is_meta, _TENSOR.get_device)
_RECURRENT = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)


def _recurrent(
    func: Any,
    data: torch.Tensor,
    state: torch.Tensor | Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    *settings: Any,
) -> tuple[torch.Tensor, ...]:
    """Return the output and last state of a recurrent layer of torch, without data.

    Raises ValueError where a weight fits neither the data nor the layers before it.
    """
    bidirectional = bool(settings[4])
    states = list(state) if func is torch.lstm else [cast(torch.Tensor, state)]
    width = states[0].shape[-1] * (2 if bidirectional else 1)
    rows = math.prod(data.shape[:-1])
    for weight in weights:
        if weight.dim() == 2:
            if weight.shape[1] not in (data.shape[-1], width, states[0].shape[-1]):
                raise ValueError(f"a weight of {weight.shape[1]} columns for {data.shape[-1]}")
            torch.empty(rows, weight.shape[1], dtype=weight.dtype, device="meta") @ weight.t()
    out = torch.empty(*data.shape[:-1], width, dtype=data.dtype, device="meta")
    return (out, *(torch.empty_like(one, device="meta") for one in states))


class _Constructors:
    """The constructors of torch.Tensor's subclasses, replaced while a mode is entered.

    torch.Tensor's own stays: torch's compiler looks at it when it is loaded.
    """

    def __init__(self) -> None:
        self._lock, self._entered = threading.Lock(), 0
        self._replaced: list[Any] = []

    def moved_outside(self) -> None:
        with self._lock:
            self._entered += 1
            for one in _without_constructor(torch.Tensor):
                one.__new__ = staticmethod(_new)
                self._replaced.append(one)

    def moved_back(self) -> None:
        with self._lock:
            self._entered -= 1
            while not self._entered and self._replaced:
                del self._replaced.pop().__new__


_CONSTRUCTORS = _Constructors()


def _without_constructor(of: type[torch.Tensor]) -> Iterator[Any]:
    """Yield the direct subclasses that torch's constructor makes; those below inherit theirs."""
    for one in type.__subclasses__(of):
        if next(base for base in one.__mro__ if "__new__" in vars(base)) is torch._C.TensorBase:
            yield one


def _new(cls: type[torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
    make: Any = torch._C.TensorBase.__new__
    with contextlib.ExitStack() as outside:
        while isinstance(_get_current_dispatch_mode(), UntracedMode):
            outside.enter_context(_pop_mode_temporarily())
        made: torch.Tensor = make(cls, *args, **kwargs)
        return made
