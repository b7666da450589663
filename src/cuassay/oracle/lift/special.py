"""Operations whose lifted form is not simply the same operation on payloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from cuassay.block_scaled import has_blocks, named_arguments, product
from cuassay.errors import LiftError
from cuassay.hooks import Operation
from cuassay.oracle.lift.source import source_line
from cuassay.oracle.lift.tensor import LIFTABLE, Lifted, lifted_dtype
from cuassay.oracle.lift.traits import traits_of
from cuassay.tables import row

if TYPE_CHECKING:
    from cuassay.oracle.lift.nominal import Nominals
    from cuassay.oracle.lift.session import Session

aten = torch.ops.aten
Special: TypeAlias = Callable[["Session", Operation, "Nominals"], Any]


SPECIAL: dict[Any, Special] = {}


@row(SPECIAL, aten.view.dtype)
def _view_dtype(session: Session, asked: Operation, nominals: Nominals) -> Any:
    """`x.view(dtype)`: real and complex pairs can be lifted, other bits cannot."""
    source: torch.Tensor = asked.args[0]
    target: torch.dtype = asked.args[1]
    if source.dtype not in LIFTABLE and target not in LIFTABLE:
        return asked.run()
    if source.dtype is target:
        return session.wrap(session.unwrap(source).view_as(source), (target,))
    pairs = source.dtype in LIFTABLE and target in LIFTABLE
    if pairs and source.dtype.is_complex != target.is_complex:
        ratio = source.dtype.itemsize / target.itemsize
        payload = session.unwrap(source)
        wanted = lifted_dtype(target, session.to)
        if payload.dtype.itemsize / wanted.itemsize == ratio:
            return session.wrap(payload.view(wanted), (target,))
    why = f"it reinterprets the bits of {_name(source.dtype)} as {_name(target)}"
    raise LiftError("aten.view.dtype", source_line(), why)


@row(SPECIAL, aten.lift_fresh.default)
def _fresh(session: Session, asked: Operation, nominals: Nominals) -> Any:
    """A tensor literal that torch built itself, already rounded to its dtype."""
    literal: torch.Tensor = asked.args[0]
    if isinstance(literal, Lifted) or literal.dtype not in LIFTABLE:
        return literal
    payload = literal.to(lifted_dtype(literal.dtype, session.to), copy=True)
    return session.adopt(payload, literal.dtype)


@row(SPECIAL, aten._softmax.default, aten._log_softmax.default)
def _plain_softmax(session: Session, asked: Operation, nominals: Nominals) -> Any:
    """`half_to_float` says only that the result is wider: lifted, both are as wide."""
    lifted = Operation(asked.op, (*asked.args[:2], False), {})
    return session.run(lifted, traits_of(asked.op), nominals)


@row(SPECIAL, aten.view_as_real.default)
def _real_view(session: Session, asked: Operation, nominals: Nominals) -> Any:
    return session.wrap(asked.op(session.unwrap(asked.args[0]).resolve_conj()), nominals)


@row(SPECIAL, aten.native_dropout.default)
def _dropout(session: Session, asked: Operation, nominals: Nominals) -> Any:
    """The mask is drawn as written; the product is lifted."""
    args = asked.args
    payload = session.unwrap(args[0])
    ones = torch.ones_like(payload, dtype=args[0].dtype)
    mask = asked.op(ones, *args[1:], **asked.kwargs)[1]
    keep = 1.0 - args[1] if len(args) < 3 or args[2] is not False else 1.0
    out = payload * mask * (1.0 / keep if keep else 0.0)
    return session.wrap(session.after(session.low(asked), (out, mask), nominals), nominals)


@row(SPECIAL, aten._scaled_mm.default)
def _scaled_mm(session: Session, asked: Operation, nominals: Nominals) -> Any:
    """Product of 8- or 4-bit floats with scales: (a scale_a) @ (b scale_b) + bias.

    torch documents scales as tensor-wise (one number), row-wise ((M, 1) and (1, N)) or one a block
    along K, in the layout of tensor cores.
    """
    named = named_arguments(asked.args, asked.kwargs)
    if named.get("scale_result") is not None:
        raise LiftError(str(asked.op), source_line(), "a result scale is not lifted")
    scale_a, scale_b = (session.unwrap(named[key]) for key in ("scale_a", "scale_b"))
    if has_blocks(named):
        out = product(named, (scale_a, scale_b), session.to)
    else:
        a, b = (named[key].to(session.to) for key in ("self", "mat2"))
        if not (scale_a.numel() in (1, a.shape[0]) and scale_b.numel() in (1, b.shape[1])):
            why = "scales of blocks are lifted in tiles of 128 x 4 (e4m3 of 16, e8m0 of 32) alone"
            raise LiftError(str(asked.op), source_line(), why)
        out = (a @ b) * scale_a.reshape(-1, 1) * scale_b.reshape(1, -1)
    if named.get("bias") is not None:
        out = out + session.unwrap(named["bias"])
    if named.get("out_dtype") is not None:
        nominals = (named["out_dtype"],)
    return session.wrap(session.after(session.low(asked), out, nominals), nominals)


@row(
    SPECIAL,
    aten._fused_adam_.default,
    aten._fused_adam_.tensor_lr,
    aten._fused_adamw_.default,
    aten._fused_adamw_.tensor_lr,
    aten._fused_adagrad_.default,
)
def _fused_step(session: Session, asked: Operation, nominals: Nominals) -> Any:
    """A fused optimizer step: its kernels read step counts and scales as float32."""
    names = [argument.name for argument in asked.op._schema.arguments]
    low = session.unwrap({**dict(zip(names, asked.args, strict=False)), **asked.kwargs})
    for name in ("state_steps", "grad_scale", "found_inf", "lr"):
        value = low.get(name)
        if isinstance(value, list | tuple):
            low[name] = [tensor.float() for tensor in value]
        elif isinstance(value, torch.Tensor):
            low[name] = value.float()
    positional = [low.pop(name) for name in names[: len(asked.args)]]
    session.call(Operation(asked.op, positional, low))


@row(SPECIAL, aten._grouped_mm.default)
def _grouped_mm(session: Session, asked: Operation, nominals: Nominals) -> Any:
    """One product a group; offsets are the groups' ends along the shared or leading axis."""
    named = dict(zip(("self", "mat2", "offs", "bias", "out_dtype"), asked.args, strict=False))
    named |= asked.kwargs
    a, b = session.unwrap(named["self"]), session.unwrap(named["mat2"])
    ends = [] if named.get("offs") is None else named["offs"].tolist()
    spans = [*zip([0, *ends[:-1]], ends, strict=True)]
    if a.dim() == 3 and b.dim() == 3:
        out = a @ b
    elif a.dim() == 2 and b.dim() == 2:
        out = torch.stack([a[:, low:high] @ b[low:high] for low, high in spans])
    elif a.dim() == 2:
        out = a.new_zeros(a.shape[0], b.shape[-1])
        for index, (low, high) in enumerate(spans):
            out[low:high] = a[low:high] @ b[index]
    else:
        out = a.new_zeros(a.shape[-2], b.shape[-1])
        for index, (low, high) in enumerate(spans):
            out[:, low:high] = a[index] @ b[:, low:high]
    if named.get("bias") is not None:
        raise LiftError(str(asked.op), source_line(), "a bias is not lifted")
    return session.wrap(session.after(session.low(asked), out, nominals), nominals)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
