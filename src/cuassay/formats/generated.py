"""What a problem's generator made, held against the domains that the problem states.

Inferred domains are guesses that the generator may contradict; a stated one is a promise,
and a generator that breaks it would have kernels condemned for inputs that nobody passes.
Tensors are used through their methods alone: this module never imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from cuassay.errors import ReferenceError_
from cuassay.formats.domain_rules import domain_words, within
from cuassay.model.axes import evaluate, resolve, shape_of
from cuassay.model.domain import (
    Choice,
    Index,
    IntegerRange,
    Lengths,
    Offsets,
    Packed,
    Positive,
    Probability,
    Real,
    Structure,
)
from cuassay.model.dtype import DType
from cuassay.model.problem import InputSpec, Problem, ScalarSpec

_LARGE = 1 << 24  # elements
_FACTORED = 512  # rows and columns that are factored to see whether a matrix is positive definite
_SUM_SLACK = 0.05  # bfloat16 probabilities of long rows sum to one only so well


def check_made(
    problem: Problem, made: Mapping[str, object], axes: Mapping[str, object], *, where: str
) -> None:
    """Raise ReferenceError_ where a value lies outside the domain that the problem states.

    `axes` are the sizes that the generator was called with.
    """
    names = {axis.name for axis in problem.axes}
    given = {n: size for n, size in axes.items() if n in names and isinstance(size, int)}
    sizes = resolve(problem.axes, given)
    for spec in problem.inputs:
        if is_stated(spec) and spec.name in made:
            shape = getattr(made[spec.name], "shape", None)
            if shape is not None and not isinstance(spec, ScalarSpec):
                expected = shape_of(spec.shape, sizes)
                if tuple(shape) != expected:
                    raise ReferenceError_(
                        f"{where} made shape {list(shape)} for input '{spec.name}', expected "
                        f"{list(expected)}; correct the generator or the problem's axes"
                    )
            _check_dtype(spec, made[spec.name], where=where)
            outside = outside_domain(spec, made[spec.name], sizes)
            if outside:
                raise ReferenceError_(
                    f"{where} made {outside} for input '{spec.name}', which is not "
                    f"{domain_words(spec.domain)} ({spec.domain_source}); correct the generator or "
                    "the domain"
                )


def _check_dtype(spec: InputSpec, value: object, *, where: str) -> None:
    made = str(getattr(value, "dtype", "")).removeprefix("torch.")
    if isinstance(spec, ScalarSpec) or spec.dtype is DType.FLOAT4_E2M1FN_X2:
        return
    declared = spec.domain_source == "declared"  # foreign generators take liberties
    if declared and made and made != spec.dtype.value:
        raise ReferenceError_(
            f"{where} made dtype {made} for input '{spec.name}', expected {spec.dtype}; "
            "correct the generator or the dtype"
        )


def is_stated(spec: InputSpec) -> bool:
    """Whether the problem's author states the domain of an input, and nobody inferred it."""
    return spec.domain_source == "declared" or spec.domain_source.startswith("sidecar")


def outside_domain(spec: InputSpec, value: object, sizes: Mapping[str, int]) -> str:
    """Return what lies outside the domain of an input, in words; empty where nothing does."""
    if isinstance(value, bool | int | float):
        return "" if within(value, spec.domain) else repr(value)
    if not hasattr(value, "numel") or spec.dtype is DType.FLOAT4_E2M1FN_X2:
        return ""  # no tensor: said elsewhere; packed pairs have no bounds
    tensor: Any = value
    if not tensor.numel():
        return ""
    if tensor.numel() < _LARGE or tensor.dtype.itemsize == 1:  # else it would be a copy too many
        tensor = tensor.double() if spec.dtype.is_floating else tensor.long()
    return _tensor_outside(spec, tensor, sizes)


def _tensor_outside(spec: InputSpec, tensor: Any, sizes: Mapping[str, int]) -> str:
    match spec.domain:
        case Real(low=low, high=high) | Positive(low=low, high=high):
            # A bound that the dtype cannot hold may have been rounded outwards.
            slack = 2.0 * spec.dtype.float_format.unit_roundoff
            beyond = _beyond(
                tensor,
                None if low is None else low - abs(low) * slack,
                None if high is None else high + abs(high) * slack,
            )
            return beyond or (
                unlike(spec.domain.structure, tensor) if isinstance(spec.domain, Real) else ""
            )
        case IntegerRange(low=low, high=high):
            return _beyond(tensor, low, high)
        case Probability(axis=axis):
            off = (tensor.sum(axis) - 1.0).abs().max().item()
            return _beyond(tensor, 0.0, None) or (
                f"numbers whose sum is off by {off:.3g}" if off > _SUM_SLACK else ""
            )
        case Index(lengths=lengths) if lengths:
            return ""  # which entries are in use this input alone does not tell
        case Lengths(axis=axis, low=low):
            return _beyond(tensor, low, evaluate(axis, sizes))
        case Packed(bits=bits, low=low):
            places = range(0, 8 * spec.dtype.itemsize, bits)
            codes = ((tensor >> place) & ((1 << bits) - 1) for place in places)
            return next(filter(None, (_beyond(each, low, spec.domain.top) for each in codes)), "")
        case Index(axis=axis, sentinels=sentinels, unique=unique):
            for sentinel in sentinels:
                tensor = tensor[tensor != sentinel]
            repeated = unique and tensor.unique().numel() < tensor.numel()
            last = evaluate(axis, sizes) - 1
            return _beyond(tensor, 0, last) or ("repeated indices" if repeated else "")
        case Offsets(axis=axis, multiple_of=step, short=short):
            size, last = evaluate(axis, sizes), tensor[-1].item()
            ends = tensor[0].item() == 0 and (last == size or (short and last <= size))
            rising = bool((tensor[1:] >= tensor[:-1]).all())
            stepped = not bool((tensor[:-1] % step).any())
            return (
                ""
                if ends and rising and stepped
                else f"{tensor[:4].tolist()}...{tensor[-1].item()}"
            )
        case Choice(values=values):
            for legal in values:
                tensor = tensor[tensor != legal]
            return repr(tensor.reshape(-1)[0].item()) if tensor.numel() else ""
    return ""


def unlike(structure: Structure, tensor: Any) -> str:
    """Return what square matrices hold that a structure leaves out, in words; else nothing."""
    match structure:
        case Structure.GENERAL:
            return ""
        case Structure.SYMMETRIC:
            return "" if bool((tensor == tensor.mT).all()) else "numbers that are not symmetric"
        case Structure.POSITIVE_DEFINITE:
            import torch

            if said := unlike(Structure.SYMMETRIC, tensor):
                return said
            # A leading part of such a matrix is one too, and the whole may cost too much.
            part = tensor[..., :_FACTORED, :_FACTORED].double()
            failed = bool(torch.linalg.cholesky_ex(part).info.any())
            return "a matrix that is not positive definite" if failed else ""
        case Structure.UPPER_TRIANGULAR:
            return "numbers below the diagonal" if bool(tensor.tril(-1).any()) else ""
        case Structure.LOWER_TRIANGULAR:
            return "numbers above the diagonal" if bool(tensor.triu(1).any()) else ""
        case Structure.DIAGONAL:
            beside = bool(tensor.tril(-1).any()) or bool(tensor.triu(1).any())
            return "numbers beside the diagonal" if beside else ""
    assert_never(structure)


def _beyond(tensor: Any, low: float | None, high: float | None) -> str:
    """Return the value that lies furthest outside [low, high], or NaN where there is one."""
    if not tensor.numel():
        return ""
    least, most = tensor.min().item(), tensor.max().item()
    if least != least:  # torch's min and max of a tensor with a NaN are NaN
        return "NaN"
    if low is not None and least < low:
        return repr(least)
    return repr(most) if high is not None and most > high else ""
