"""Domains told by names, descriptions and workload values: habits of the field, not proof."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from cuassay.model.domain import (
    Choice,
    Domain,
    IntegerRange,
    Mask,
    Offsets,
    Positive,
    Probability,
    Real,
)
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, Scalar, ScalarSpec, TensorSpec

_POSITIVE = {
    "rstd", "std", "stdev", "var", "variance", "invstd", "invvar", "invrms", "rms", "rrms",
}  # fmt: skip
_PROBABILITY = {"prob", "probs", "probability", "probabilities"}
_PROBABILITY_NAMES = ("attn_weights", "attention_weights", "routing_weights", "router_weights")
_OFFSETS = {"indptr", "cuseqlens", "seqlens_cu", "offsets"}
_SMALL_RANGES = {  # state-space and gated models: what goes through exp must stay small
    "A": (-1.0, -0.01), "A_log": (-4.0, 1.0), "A_cumsum": (-8.0, 0.0), "g": (-1.0, 0.0),
}  # fmt: skip


def tokens(name: str) -> set[str]:
    """Return the words of a name in lower case, digits stripped: `norm2_weight` -> norm, weight."""
    return {re.sub(r"\d+", "", word) for word in re.split(r"[_\W]+", name.lower())} - {""}


def float_domain(spec: TensorSpec, *, op_type: str = "", source: str = "") -> Domain | None:
    """Return what name and description say about a floating tensor, None where nothing.

    State-space names count only where the reference's `source` takes an exponential: `A` is
    also what a matrix product calls its operand.
    """
    name, words, text = spec.name.lower(), tokens(spec.name), spec.description.lower()
    if "mask" in words:
        return mask_domain(spec)
    if words & _POSITIVE or "inv_std" in name or "exp_avg_sq" in name:
        return Positive()
    if (
        words & _PROBABILITY
        or name in _PROBABILITY_NAMES
        or re.search(r"softmax\w*\s+(\w+\s+)?(output|prob)", text) is not None
    ):
        return Probability() if spec.shape else Real(low=0.0, high=1.0)
    if words & {"cos", "sin", "cosine", "sine"}:
        return Real(low=-1.0, high=1.0)
    if spec.name in _SMALL_RANGES and re.search(r"\bexp\w*\(", source):
        low, high = _SMALL_RANGES[spec.name]
        return Real(low=low, high=high)
    if words & {"scale", "scales", "absmax", "amax"} and "quant" in f"{text} {op_type} {name}":
        return Positive()
    return None


def mask_domain(spec: TensorSpec) -> Mask:
    """Return the kind of a mask; a floating attention mask is added to scores."""
    words, text = tokens(spec.name), spec.description.lower()
    floating = spec.dtype.is_floating
    attention = bool(words & {"attention", "attn", "causal", "bias"})
    square = len(spec.shape) >= 2 and spec.shape[-1] == spec.shape[-2]
    told_binary = re.search(r"\bbinary\b|\b0\s*(/|or|and)\s*1\b|dropout", f"{text} {spec.name}")
    additive = floating and told_binary is None and (attention or "additive" in text)
    if "causal" in words or "causal" in text or (attention and square and floating):
        return Mask(kind="causal", additive=additive)
    kind = "padding" if words & {"padding", "pad"} or "padding" in text else "arbitrary"
    return Mask(kind=kind, additive=additive)


def integer_domain(spec: TensorSpec, problem: Problem) -> Domain | None:
    """Return the mask or offsets that an integer tensor's name says; None where it says neither.

    What an integer indexes is seen where the reference runs (contract/uses.py).
    """
    words, name = tokens(spec.name), spec.name.lower()
    if "mask" in words:
        return mask_domain(spec)
    if words & _OFFSETS or "cu_seqlen" in name or name.endswith("_ptr"):
        for part in ("total", "nnz", "tokens"):
            axes = [axis.name for axis in problem.axes if part in axis.name.lower()]
            if len(axes) == 1:
                return Offsets(axis=axes[0])
    return None


def sentinels(problem: Problem, spec: TensorSpec) -> tuple[int, ...]:
    """Return (-100,) where the problem speaks of ignored labels, else ()."""
    if not tokens(spec.name) & {"label", "labels", "target", "targets"}:
        return ()
    told = f"{spec.description} {problem.reference.source}"
    return (-100,) if re.search(r"-100\b|ignore_index", told) else ()


def scalar_domain(spec: ScalarSpec, seen: Sequence[Scalar]) -> Domain | None:
    """Return the range in which a scalar may be moved, judged by name and workload values.

    Integers are held to the values seen: nothing tells which others are legal.
    """
    if spec.dtype is DType.BOOL:
        return Choice(values=(False, True))
    if not seen:
        return None
    unique = tuple(dict.fromkeys(seen))
    words = tokens(spec.name)
    if not spec.dtype.is_floating:
        if words & {"step", "steps", "timestep"} and min(seen) >= 1:
            return IntegerRange(low=1, high=max(1000, int(max(seen))))
        return Choice(values=unique)
    if not all(math.isfinite(value) for value in seen):
        return Choice(values=unique)
    low, high = float(min(seen)), float(max(seen))
    if words & {"eps", "epsilon"}:
        usual = 1e-8, 1e-2
    elif words & {"dropout", "beta", "betas", "momentum", "alpha"} or words == {"p"}:
        usual = (0.0, 0.9) if words & {"dropout", "p"} else (0.0, 0.999)
    else:
        usual = None
    if usual is not None:
        return Real(low=min(low, usual[0]), high=max(high, usual[1]))
    if low > 0:
        return Real(low=low / 8, high=high * 8)
    if high < 0:
        return Real(low=low * 8, high=high / 8)
    return Choice(values=unique) if low == high else Real(low=2 * low, high=2 * high)
