"""The gradients of a function as a function, which is lifted and judged like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cuassay.without_sympy import sizes_are_numbers


def differentiated(
    run: Callable[..., Sequence[Tensor]], places: Sequence[int], *, count: int
) -> Callable[..., tuple[Tensor, ...]]:
    """Return `gradient(*inputs, *upstream)`: the gradients of the inputs at `places`.

    `run` takes `count` inputs and gives one output for each upstream gradient, of its shape.
    Outputs without a gradient path are left out, and an input that reaches none has zeros.
    """

    def gradient(*values: Tensor) -> tuple[Tensor, ...]:
        inputs, upstream = list(values[:count]), values[count:]
        with torch.enable_grad():
            for place in places:
                inputs[place] = inputs[place].detach().clone().requires_grad_()
            leaves = [inputs[place] for place in places]
            pairs = [
                (output, given)
                for output, given in zip(run(*inputs), upstream, strict=True)
                if output.requires_grad
            ]
            made: Sequence[Tensor | None] = [None] * len(leaves)
            if pairs:
                ends, weights = [output for output, _ in pairs], [given for _, given in pairs]
                with sizes_are_numbers():
                    made = torch.autograd.grad(ends, leaves, weights, allow_unused=True)
        return tuple(
            torch.zeros_like(leaf) if one is None else one.detach().contiguous()
            for leaf, one in zip(leaves, made, strict=True)
        )

    gradient.__name__ = f"gradient of {getattr(run, '__name__', 'the reference')}"
    return gradient
