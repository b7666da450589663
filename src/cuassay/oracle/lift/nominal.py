"""Which dtype an operation's results would have in the reference as written.

Pointwise operations and common reductions follow type promotion. For the others ATen's own
shape functions say it: the operation runs once on meta tensors of the nominal dtypes. (They
would say it for all, but many import torch._dynamo, which takes a second.) The answer depends
on dtypes, 0-d-ness and scalar types only, so it is kept per such key. Operations whose meta
function needs data (nonzero, masked_select) follow type promotion as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from cuassay.dispatch_modes import tensors_in
from cuassay.hooks import Operation
from cuassay.oracle.lift.tensor import LIFTABLE, same_kind
from cuassay.oracle.lift.traits import Traits

Nominals = tuple[torch.dtype | None, ...]

_PROMOTING = {
    "sum", "mean", "amax", "amin", "prod", "cumsum", "cumprod", "logsumexp", "var", "std",
    "var_mean", "linalg_vector_norm", "norm", "cat", "stack", "mm", "bmm", "addmm", "baddbmm",
    "tril", "triu", "roll", "flip", "index_select", "gather", "embedding", "clone",
    "zeros_like", "ones_like", "empty_like", "full_like", "new_zeros", "new_ones", "new_empty",
    "new_full", "convolution", "_safe_softmax", "_softmax_backward_data",
    "_log_softmax_backward_data", "log_sigmoid_forward", "nll_loss_forward",
    "nll_loss_backward", "embedding_dense_backward",
}  # fmt: skip
_HALF_TO_FLOAT = frozenset({"_softmax", "_log_softmax"})  # third argument: the result is float32
_SEQUENCES, _BY_VALUE = (tuple, list), (bool, str, torch.dtype)
_CACHE: dict[Any, Nominals] = {}
_CACHE_LIMIT = 20_000  # keys; a reference makes tens


def nominals_of(asked: Operation, traits: Traits) -> Nominals:
    """Return the nominal dtype of each result, in order; integers and bool as they are.

    The arguments are the reference's own, nominal dtypes on the tensors. Further results of a
    list have the last entry's dtype.
    """
    if traits.written:
        return tuple(tensor.dtype for tensor in traits.targets(asked))
    try:
        arguments = _key(asked.args), _key(tuple(asked.kwargs.items())) if asked.kwargs else ()
        key = (asked.op, torch.get_default_dtype(), *arguments)
        known = _CACHE.get(key)
    except TypeError:  # an argument that cannot be hashed: no key
        return _find(asked, traits)
    if known is None:
        if len(_CACHE) >= _CACHE_LIMIT:
            _CACHE.clear()
        known = _CACHE[key] = _find(asked, traits)
    return known


def _key(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.dim() == 0
    if isinstance(value, _SEQUENCES):
        return tuple([_key(item) for item in value])
    if value is None or isinstance(value, _BY_VALUE):
        return value
    return type(value)


def _find(asked: Operation, traits: Traits) -> Nominals:
    op, args = asked.op, asked.args
    name = op._schema.name.removeprefix("aten::")
    if name in _HALF_TO_FLOAT:
        return (torch.float32 if args[2] is True else args[0].dtype,)
    tensors = tensors_in((*args, *asked.kwargs.values()))
    if not tensors or torch.Tag.pointwise in op.tags or name in _PROMOTING:
        return (_promoted(asked, tensors),)
    if name == "native_layer_norm":  # mean and reciprocal deviation stay in float32
        low = args[0].dtype in (torch.float16, torch.bfloat16)
        return args[0].dtype, torch.float32 if low else args[0].dtype
    try:
        meta = asked.on(_meta)
        device = {"device": torch.device("meta")} if "device" in traits.names else {}
        found = tuple(t.dtype for t in tensors_in(op(*meta.args, **{**meta.kwargs, **device})))
        return found or (None,)
    except Exception:  # no meta function, or one that needs data
        return (_promoted(asked, tensors),)


def _meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
    return torch.device("meta") if isinstance(value, torch.device) else value


def _promoted(asked: Operation, tensors: Sequence[torch.Tensor]) -> torch.dtype:
    """Type promotion: an explicit dtype, else the floating tensors', else the default."""
    for value in (asked.kwargs.get("dtype"), *asked.args):
        if isinstance(value, torch.dtype):
            return value
    for group in ([t for t in tensors if t.dim()], tensors):
        floating = [t.dtype for t in group if t.dtype in LIFTABLE]
        if floating:
            found = floating[0]
            for dtype in floating[1:]:
                found = torch.promote_types(found, dtype)
            return found
    return torch.get_default_dtype()


def nominal_at(nominals: Nominals, index: int, payload: torch.dtype) -> torch.dtype:
    """Return result `index`'s nominal dtype, made real or complex as the payload is."""
    found = nominals[min(index, len(nominals) - 1)] if nominals else None
    if found is None or found not in LIFTABLE:
        found = torch.get_default_dtype()
    return same_kind(found, payload)
