"""Python-level calls that never reach ATen's dispatcher, or reach it too late.

Literals (`torch.tensor(0.1)`, `x[0] = 0.1`) are rounded before the dispatcher sees them;
`.numpy()`, `.data_ptr()` and the like read memory that a lifted tensor does not have; and
attention picks a fused kernel by dtype. A function mode meets them first.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from cuassay.errors import LiftError
from cuassay.hooks import Following, Operation, floating_in
from cuassay.oracle.lift.session import Session
from cuassay.oracle.lift.source import source_line
from cuassay.oracle.lift.tensor import LIFTABLE, Lifted, lifted_dtype
from cuassay.tables import row

Handler: TypeAlias = Callable[["LiftFunctions", Operation], Any]
_T = torch.Tensor
_DATA: Any = torch.Tensor.data  # a getset descriptor, whose type stub is the attribute's


class LiftFunctions(TorchFunctionMode):
    """Meets Python-level calls of torch functions and tensor methods."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the call, by its own handler where it has one."""
        handler = _HANDLERS.get(func)
        if handler is None or self.session.bypass:
            return func(*args, **(kwargs or {}))
        return handler(self, Operation(func, args, kwargs or {}))


def _literal(mode: LiftFunctions, call: Operation) -> Any:
    """torch.tensor and its like: the exact value, under the dtype it would have."""
    func, kwargs, session = call.op, call.kwargs, mode.session
    data = call.args[0] if call.args else kwargs.get("data", kwargs.get("obj"))
    if isinstance(data, torch.Tensor):
        if func is torch.tensor:
            wanted = {k: kwargs[k] for k in ("dtype", "device") if kwargs.get(k) is not None}
            made = data.detach().clone().to(**wanted) if wanted else data.detach().clone()
            return made.requires_grad_() if kwargs.get("requires_grad") else made
        return call.run()
    rest = {k: v for k, v in kwargs.items() if k not in ("data", "obj", "requires_grad")}
    data, dtypes = _plain_data(data)
    if isinstance(session.hook, Following):
        session.hook.literal(bool(dtypes))
    with session.own_work():
        found: torch.dtype = func(data).dtype
        nominal = rest.get("dtype") or (dtypes[0] if dtypes and found.is_floating_point else found)
        rest["dtype"] = lifted_dtype(nominal, session.to)
        payload = func(data, **rest)
        payload = payload.clone() if payload.dtype in LIFTABLE else payload
    if payload.dtype not in LIFTABLE:
        return payload
    made = session.adopt(payload, nominal)
    return made.requires_grad_() if kwargs.get("requires_grad") else made


def _plain_data(data: Any) -> tuple[Any, list[torch.dtype]]:
    """Return literals with lifted 0-d tensors as numbers, and those tensors' dtypes."""
    if isinstance(data, Lifted):
        return data.payload.tolist(), [data.dtype]
    if isinstance(data, list | tuple):
        pairs = [_plain_data(item) for item in data]
        return [value for value, _ in pairs], [d for _, found in pairs for d in found]
    return data, []


_HANDLERS: dict[Any, Handler] = {}


@row(_HANDLERS, _T.new_tensor)
def _new_tensor(mode: LiftFunctions, call: Operation) -> Any:
    like, data = call.args[0], call.args[1] if len(call.args) > 1 else call.kwargs["data"]
    wanted = {"dtype": like.dtype, "device": like.device}
    wanted |= {k: v for k, v in call.kwargs.items() if k != "data" and v is not None}
    return _literal(mode, Operation(torch.tensor, (data,), wanted))


@row(_HANDLERS, _T.__setitem__)
def _setitem(mode: LiftFunctions, call: Operation) -> Any:
    """`x[i] = 0.1` would round the number to x's nominal dtype before ATen sees it."""
    target, index, value = call.args
    if isinstance(value, float) and isinstance(target, Lifted):
        with mode.session.own_work():
            payload = torch.full((), value, dtype=target.payload.dtype, device=target.device)
        value = mode.session.adopt(payload, target.dtype)
    return call.op(target, index, value)


@row(_HANDLERS, _DATA.__set__)
def _set_data(mode: LiftFunctions, call: Operation) -> Any:
    target, value = call.args
    if isinstance(target, Lifted) != isinstance(value, Lifted):
        raise LiftError("Tensor.data = ...", source_line(), "one side is not a lifted tensor")
    call.run()
    if isinstance(target, Lifted):
        target.payload, target.borrowed = value.payload, value.borrowed


@row(_HANDLERS, torch.nn.functional.scaled_dot_product_attention)
def _attention(mode: LiftFunctions, call: Operation) -> Any:
    """Attention by matrix products and a softmax: fused kernels have no float64."""
    with sdpa_kernel(SDPBackend.MATH):
        return call.run()


def _reads_memory(why: str) -> Handler:
    def handler(mode: LiftFunctions, call: Operation) -> Any:
        if call.args and isinstance(call.args[0], Lifted):
            name = getattr(call.op, "__name__", str(call.op))
            if name == "__get__":  # of a property
                owner = getattr(call.op, "__self__", None)
                name = str(getattr(owner, "__name__", "__cuda_array_interface__"))
            raise LiftError(f"Tensor.{name}", source_line(), why)
        return call.run()

    return handler


@row(_HANDLERS, _T.tolist)
def _on_payload(mode: LiftFunctions, call: Operation) -> Any:
    """tolist: the lifted value."""
    if isinstance(mode.session.hook, Following):
        mode.session.hook.literal(bool(floating_in(call.args)))
    with mode.session.own_work():
        return call.on(lambda v: v.payload if isinstance(v, Lifted) else v).run()


@row(_HANDLERS, _T.__deepcopy__)
def _deepcopy(mode: LiftFunctions, call: Operation) -> Any:
    given = call.args[0]
    if not isinstance(given, Lifted):
        return call.run()
    return given.detach().clone().requires_grad_(given.requires_grad)


@row(_HANDLERS, _T.backward, torch.autograd.grad, torch.nn.functional.multi_head_attention_forward)
def _reentered(mode: LiftFunctions, call: Operation) -> Any:
    """Run a Python function of torch with this mode still on.

    torch takes the mode off while it runs the function; user code that the function calls
    (the backward of an autograd.Function) would not be met.
    """
    with mode:
        func = call.op  # with its own torch-function check answering no, so that it runs once
        if func not in _CLONES:
            names = {**func.__globals__, **dict.fromkeys(_OVERRIDES, lambda *_: False)}
            clone = types.FunctionType(
                func.__code__, names, func.__name__, func.__defaults__, func.__closure__
            )
            clone.__kwdefaults__ = func.__kwdefaults__
            _CLONES[func] = clone
        return _CLONES[func](*call.args, **call.kwargs)


_OVERRIDES = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_CLONES: dict[Any, Callable[..., Any]] = {}


_MEMORY = "it hands out memory, and the lifted value is not in the memory the caller expects"
_NUMPY = "it leaves torch; write that part of the reference with torch operations"
_HANDLERS |= {
    torch.tensor: _literal,
    torch.as_tensor: _literal,
    torch.asarray: _literal,
    _T.numpy: _reads_memory(_NUMPY),
    _T.__array__: _reads_memory(_NUMPY),
    _T.__dlpack__: _reads_memory(_MEMORY),
    _T.data_ptr: _reads_memory(_MEMORY),
    _T.untyped_storage: _reads_memory(_MEMORY),
    _T.storage: _reads_memory(_MEMORY),
    _T.__cuda_array_interface__.__get__: _reads_memory(_MEMORY),
}
