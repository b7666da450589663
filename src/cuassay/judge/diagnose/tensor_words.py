"""What a tensor holds, in words that are true of it."""

from __future__ import annotations

import math

import torch

from cuassay.checks.numeric.common import fill_text
from cuassay.inputs.packed import codes_of
from cuassay.model.case import Fill

_LISTED = 8  # elements that are named one by one
_ROW = 8  # elements of a row that are shown


def tensor_words(value: torch.Tensor, fill: Fill | None, *, row: int | None = None) -> str:
    """Return `all 1`, `[0.5, 2]`, `zeros but [0, 7] = 3`, or how it was drawn and its range.

    `fill` is the recipe that made it, None where the problem's own generator or domain did. Of a
    tensor that is only described the first elements of `row` are shown.
    """
    if not value.numel():
        return "empty"
    flat = codes_of(value.detach().cpu())
    flat = flat.double() if flat.is_floating_point() else flat
    # The value that most elements have, zero if two do, and where others stand
    usual = 0.0 if bool((flat == 0).any()) else float(flat.reshape(-1)[0])
    others = (flat != usual).nonzero()
    if not len(others):
        return {0.0: "zeros", 1.0: "ones"}.get(usual, f"all {_number(usual)}")
    if flat.numel() <= _LISTED:
        return str([_number(one) for one in flat.reshape(-1).tolist()]).replace("'", "")
    if len(others) <= _LISTED:
        base = {0.0: "zeros", 1.0: "ones"}.get(usual, f"all {_number(usual)}")
        said = ", ".join(
            f"{list(index)} = {_number(float(flat[tuple(index)]))}" for index in others.tolist()
        )
        return f"{base} but {said}"
    finite = flat[flat.isfinite()] if flat.is_floating_point() else flat
    if not finite.numel():
        low, high = math.nan, math.nan
    else:
        low, high = float(finite.min()), float(finite.max())
    known = fill is not None and fill.kind not in ("explicit", "generated")
    made = f"drawn by {fill_text(fill)}" if known and fill is not None else "drawn by its generator"
    text = f"{made}, from {_number(low)} to {_number(high)}"
    if row is not None and flat.dim() > 1 and row < flat.shape[0]:
        shown = flat[row].reshape(-1)
        said = ", ".join(_number(one) for one in shown[:_ROW].tolist())
        text += f"; row {row}: [{said}{', ...' if len(shown) > _ROW else ''}]"
    return text


def _number(value: float | bool) -> str:  # an element of any dtype
    return str(value) if isinstance(value, bool) else f"{value:.6g}"
