"""What the lift must know of one ATen operation, read once from its schema."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

from cuassay.dispatch_modes import tensors_in
from cuassay.hooks import Operation

_OWN_NAMESPACES = frozenset({"aten", "prims", "prim", "profiler"})
_NOT_DRAWN = frozenset({"_cudnn_rnn", "miopen_rnn"})  # tagged random for their dropout only
_REFUSED = {
    "aten::set_": "it swaps the storage under a tensor",
    "aten::_to_sparse": "sparse layouts are not lifted",
    "aten::to_mkldnn": "MKL-DNN layouts are not lifted",
    "aten::quantize_per_tensor": "quantised tensor types are not lifted; write round and clamp",
    "aten::quantize_per_channel": "quantised tensor types are not lifted; write round and clamp",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts of one operation.

    `written` holds position and name of every argument that it writes; `returned` says for
    every result which written argument it is (None: a new tensor); `functional` is the same
    operation without writes, None where ATen has none.
    """

    refusal: str
    written: tuple[tuple[int, str], ...]
    returned: tuple[str | None, ...]
    view: bool
    metadata: bool
    random: bool
    names: tuple[str, ...]
    functional: OpOverload | None

    def targets(self, asked: Operation) -> list[torch.Tensor]:
        """Return the tensors that a call writes."""
        args, kwargs = asked.args, asked.kwargs
        given = (args[at] if at < len(args) else kwargs.get(name) for at, name in self.written)
        return [tensor for value in given for tensor in tensors_in(value)]


@functools.cache
def traits_of(op: Any) -> Traits:
    """Return the facts of `op`, an OpOverload or a higher-order operator."""
    if not isinstance(op, OpOverload):
        why = "higher-order operators run code that the lift does not see"
        return Traits(
            refusal=why, written=(), returned=(), view=False, metadata=False, random=False,
            names=(), functional=None,
        )  # fmt: skip
    schema = op._schema
    refusal = _REFUSED.get(schema.name, "")
    if op.namespace not in _OWN_NAMESPACES:
        refusal = (
            "it is a custom operator whose arithmetic torch does not expose; write the "
            "reference with torch's own operations"
        )
    elif schema.name.startswith("aten::_") and "attention" in schema.name:
        refusal = (
            "a fused attention kernel has no float64 form; call "
            "torch.nn.functional.scaled_dot_product_attention instead"
        )
    written: list[tuple[int, str]] = []
    owners: dict[str, str] = {}
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.append((place, argument.name))
            owners |= dict.fromkeys(argument.alias_info.before_set, argument.name)
    returned = tuple(
        None
        if result.alias_info is None
        else next((owners[x] for x in result.alias_info.before_set if x in owners), None)
        for result in schema.returns
    )
    aliased = any(result.alias_info is not None for result in schema.returns)
    return Traits(
        refusal=refusal,
        written=tuple(written),
        returned=returned,
        view=aliased and not written,
        metadata=torch.Tag.inplace_view in op.tags,
        random=torch.Tag.nondeterministic_seeded in op.tags
        and op._schema.name.removeprefix("aten::") not in _NOT_DRAWN,
        names=tuple(argument.name for argument in schema.arguments),
        functional=_functional(op, {name for _, name in written}) if written else None,
    )


def _functional(op: OpOverload, written: set[str]) -> OpOverload | None:
    """Return the overload with the same arguments that writes none of them."""
    name = op._schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name.rstrip("_") if name.endswith("_") else name, None)
    if packet is None:
        return None
    is_out = any(argument.is_out for argument in op._schema.arguments)
    wanted = _signature(op, written if is_out else set())
    for overload in packet.overloads():
        candidate: OpOverload = getattr(packet, overload)
        if not candidate._schema.is_mutable and _signature(candidate, set()) == wanted:
            return candidate
    return None


def _signature(op: OpOverload, without: set[str]) -> list[tuple[str, str]]:
    return [
        (argument.name, str(argument.type))
        for argument in op._schema.arguments
        if argument.name not in without
    ]
