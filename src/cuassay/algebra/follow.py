"""A lifted run of a reference whose tensors have residues beside their float64 values.

The values decide comparisons, indices and maxima; residues are computed with, operation by
operation (`rules`), in memory that lies beside the values' own: an element of a storage has its
slot at the same place, so that views need nothing. Operations without a rule are taken apart as
torch's own decompositions say. What neither covers ends the run: nothing is guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from cuassay.algebra import values
from cuassay.algebra.rules import RULES, Applied, Unfollowed
from cuassay.dispatch_modes import UntracedMode, tensors_in
from cuassay.errors import CannotJudgeError
from cuassay.hooks import Following, Operation
from cuassay.oracle.lift.run import lift
from cuassay.oracle.lift.session import is_number
from cuassay.oracle.lift.source import source_line
from cuassay.oracle.lift.traits import traits_of
from ptxsan.numerics.residues import INPUT, NONE
from ptxsan.residues import Residues

_BYTES = 8  # of a float64, and of a slot
_CLOSE = 1e-7  # relative: a decomposition is the same function, up to rounding


def expressions(
    call: Callable[..., object],
    inputs: Sequence[Any],
    *,
    seed: int,
    names: Sequence[str] | None = None,
) -> tuple[tuple[Tensor, Tensor | None], ...]:
    """Return a reference's outputs in float64, each with its resolved slots (int64, same shape).

    Outputs that are not floats have None: they are compared by their bits. `seed` chooses the
    residues of the inputs, the ones that `ptxsan.residues.Residues(seed, strict=True)` gives a
    kernel. Raises CannotJudgeError with the reference's line for what has no residues, and what
    `lift` raises.
    """
    follower = Follower(Residues(seed=seed, strict=True).key)

    def formulated(*arguments: Any) -> object:
        with _Formulas():
            return call(*arguments)

    try:
        outputs = lift(formulated, inputs, hook=follower, names=names)
        return tuple((one, follower.output(one)) for one in outputs)
    except Unfollowed as error:
        raise CannotJudgeError(f"the reference's residues are not known: {error}") from None


class _Formulas(TorchFunctionMode):
    """Says what composite functions are where torch computes with other constants.

    Its attention multiplies both factors by the root of the scale, which is a constant of its own.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the call, attention by its definition."""
        if func is scaled_dot_product_attention:
            return _attention(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T scale + mask) v, as torch.nn.functional documents it."""
    if dropout_p:
        raise Unfollowed("attention with dropout")
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
        value = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
    scores = query @ key.transpose(-2, -1)
    scores = scores * (1.0 / math.sqrt(query.size(-1)) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return torch.softmax(scores, -1) @ value


class Follower(Following):
    """Keeps the slots of every float64 storage of a run."""

    def __init__(self, key: int, where: Callable[[], str] = source_line) -> None:
        self.key, self._where = key, where
        self._memory: dict[int, tuple[torch.UntypedStorage, Tensor]] = {}

    def given(self, tensor: Tensor, *, number: bool = False) -> None:
        """Let an input, or a tensor from outside, have random residues by its values."""
        if tensor.dtype is torch.float64:
            self._new(tensor).fill_(NONE if number else INPUT)

    def written(self, target: Tensor, value: Tensor | None) -> None:
        """Give memory that the run wrote the slots of what was written."""
        if target.dtype is not torch.float64:
            return
        if value is None:
            raise Unfollowed(f"an operation that writes memory, {self._where()}")
        slots = self.slots(value) if value.dtype is torch.float64 else torch.tensor(0)
        self.slots(target).copy_(slots.expand(target.shape))

    def literal(self, holds_tensors: bool) -> None:
        """Refuse a literal that is made of numbers which were tensors."""
        if holds_tensors:
            raise Unfollowed(f"a number taken out of a tensor, {self._where()}")

    def slots(self, tensor: Tensor) -> Tensor:
        """Return the slots of a float64 tensor, a view of their memory."""
        storage = tensor.untyped_storage()
        held = self._memory.get(storage.data_ptr())
        if held is None or held[1].numel() * _BYTES != storage.nbytes():
            if tensor.numel() == 0 or is_number(tensor):
                return torch.full(tensor.shape, NONE)
            raise Unfollowed(f"memory of an operation that is not followed, {self._where()}")
        return held[1].as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def resolved(self, tensor: Tensor) -> Tensor:
        """Return the resolved slots of any real tensor; those of no floats are constants."""
        if tensor.dtype is not torch.float64:
            if tensor.is_complex():
                raise Unfollowed(f"complex numbers, {self._where()}")
            return values.constants(tensor.double())
        return values.resolve(self.slots(tensor), tensor, self.key)

    def put(self, tensor: Tensor, slots: Tensor) -> None:
        """Give a result its slots."""
        self._new(tensor)
        self.slots(tensor).copy_(slots.expand(tensor.shape))

    def output(self, tensor: Tensor) -> Tensor | None:
        """Return the resolved slots of an output; None where it holds no floats."""
        return self.resolved(tensor) if tensor.dtype is torch.float64 else None

    def _new(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        flat = torch.zeros(storage.nbytes() // _BYTES, dtype=torch.int64)
        self._memory[storage.data_ptr()] = storage, flat
        return flat

    def replace(self, operation: Operation) -> object:
        """Take an operation apart where it has no rule of its own and torch says how."""
        op, args, kwargs = operation.op, operation.args, operation.kwargs
        if _name(op) in RULES or not _has_floats((args, kwargs)):
            return NotImplemented
        apart = decomposition_table.get(op, op.decompose)
        with _Inside(self):
            found = apart(*args, **kwargs)
        if found is NotImplemented:
            return NotImplemented
        shown = op(*args, **kwargs)
        for one, other in zip(tensors_in(found), tensors_in(shown), strict=True):
            if not _alike(one, other):
                raise Unfollowed(f"{op}: its decomposition differs, {self._where()}")
        return tuple(found) if isinstance(found, tuple) else found

    def after(self, operation: Operation, out: Any) -> object:
        """Give results their slots."""
        op, args, kwargs = operation.op, operation.args, operation.kwargs
        made = [one for one in tensors_in(out) if one.dtype is torch.float64]
        rule = RULES.get(_name(op))
        if traits_of(op).random:
            raise Unfollowed(f"{op} draws random numbers, {self._where()}")
        if rule is not None:
            try:
                slots = rule(Applied(at=self, op=op, args=args, kwargs=kwargs, out=out))
            except Unfollowed as error:
                raise Unfollowed(f"{error}, {self._where()}") from None
            if slots is not None:
                self.put(out, slots)
        elif not _has_floats((args, kwargs)):
            for one in made:
                self.put(one, torch.tensor(0))  # a constant, as its value says
        elif any(one.untyped_storage().data_ptr() not in self._memory for one in made):
            raise Unfollowed(f"{op}, {self._where()}")
        return out


class _Inside(UntracedMode):
    """Runs a decomposition under the eyes of a follower."""

    def __init__(self, follower: Follower) -> None:
        super().__init__()
        self._follower = follower

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation on plain tensors."""
        named, traits, follower = kwargs or {}, traits_of(func), self._follower
        if func._can_decompose():  # `to` and `reshape`: a view or not, as the tensor has it
            with self:
                return func.decompose(*args, **named)
        if traits.view:
            return func(*args, **named)
        if not traits.written:
            return self._run(func, args, named)
        if traits.functional is None or traits.metadata:
            raise Unfollowed(f"{func} inside a decomposition")
        names = traits_of(traits.functional).names
        value = self._run(traits.functional, args, {k: v for k, v in named.items() if k in names})
        targets = [
            args[place] if place < len(args) else named[name] for place, name in traits.written
        ]
        for target, result in zip(targets, tensors_in(value), strict=True):
            target.copy_(result)
            follower.written(target, result)
        return targets[0] if len(targets) == 1 else tuple(targets)

    def _run(self, func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        operation = Operation(func, args, named)
        found = self._follower.replace(operation)
        if found is not NotImplemented:
            return found
        return self._follower.after(operation, operation.run())


def _name(op: OpOverload) -> str:
    return op._schema.name.removeprefix("aten::")


def _has_floats(value: Any) -> bool:
    return any(one.is_floating_point() or one.is_complex() for one in tensors_in(value))


def _alike(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    if not one.is_floating_point():
        return one.numel() == 0 or bool(torch.equal(one, other.to(one.dtype)))
    scale = float(other.abs().nan_to_num(0.0, 0.0, 0.0).max()) if other.numel() else 0.0
    return torch.allclose(
        one.double(), other.double(), rtol=_CLOSE, atol=_CLOSE * scale, equal_nan=True
    )
