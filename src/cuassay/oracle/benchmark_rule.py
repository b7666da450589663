"""The benchmark's own rule, replayed so that their verdict stands beside ours.

Per output, after casting both sides to float32: any non-finite value fails (matching -inf is
allowed where the tolerance says so); an all-zero answer to a non-zero reference fails; an
element is ok iff |x - y| <= atol + rtol * |y|; enough elements must be ok, and no error may
exceed the cap where one is set. Integers and bools follow the same rule.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cuassay.model.problem import Tolerance

_CHUNK = 1 << 22


def largest_errors(candidate: Tensor, reference: Tensor) -> tuple[float, float] | None:
    """Return the largest absolute and relative error, |x - y| and |x - y| / (|y| + 1e-8).

    In float32, over elements that are finite on both sides; None for other shapes.
    """
    if candidate.shape != reference.shape:
        return None
    got, want = candidate.reshape(-1), reference.to(candidate.device).reshape(-1)
    absolute = relative = 0.0
    for start in range(0, candidate.numel(), _CHUNK):
        x, y = (part[start : start + _CHUNK].float() for part in (got, want))
        error = torch.where(torch.isfinite(x) & torch.isfinite(y), (x - y).abs(), 0.0)
        absolute = max(absolute, float(error.max()))
        relative = max(relative, float((error / (y.abs().nan_to_num() + 1e-8)).max()))
    return absolute, relative


def matched_ratio(candidate: Tensor, reference: Tensor, tolerance: Tolerance) -> tuple[bool, float]:
    """Return (accepted, share of matching elements) under the benchmark's rule.

    Shapes must be equal; other shapes are not accepted, with ratio 0. Empty outputs match.
    """
    if candidate.shape != reference.shape:
        return False, 0.0
    total = candidate.numel()
    if total == 0:
        return True, 1.0
    got, want = candidate.reshape(-1), reference.to(candidate.device).reshape(-1)
    matched, finite, largest, got_any, want_any = 0, True, 0.0, False, False
    for start in range(0, total, _CHUNK):
        x, y = (part[start : start + _CHUNK].float() for part in (got, want))
        both_low = (x == -torch.inf) & (y == -torch.inf)
        allowed = both_low if tolerance.allow_negative_inf else torch.zeros_like(both_low)
        legal = torch.isfinite(x) & torch.isfinite(y)
        error = torch.where(legal, (x - y).abs(), 0.0)
        close = legal & (error <= tolerance.atol + tolerance.rtol * y.abs())
        matched += int((close | allowed).sum())
        finite &= bool((legal | allowed).all())
        largest = max(largest, float(error.max()))
        got_any |= bool((x != 0).any())
        want_any |= bool((y != 0).any())
    ratio = matched / total
    capped = tolerance.max_error_cap is None or largest <= tolerance.max_error_cap
    enough = ratio >= tolerance.required_matched_ratio
    return finite and enough and capped and (got_any or not want_any), ratio
