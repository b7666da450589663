"""Judge one call with the oracle: the candidate's outputs against truth, and the trusted ones.

What fails is judged again with other noise, and only counts if the trusted operator's own
outputs pass: a test that the trusted operator fails is reported for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.oracle.compare.outputs import Bias, Comparison, compare
from cuassay.oracle.truth.types import Truth

MakeTruth = Callable[[Sequence[TensorSpec], int], Truth]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What came of one output. `undecided` says why nothing was decided, if so."""

    output: str
    passed: bool
    share: float = 0.0
    statistic: str = ""
    measured: float = 0.0
    allowed: float = 0.0
    group: str = ""
    undecided: str = ""
    relative_error: float = 0.0
    bias: tuple[Bias, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What came of one call; `judge` is oracle or local, `truth` float64 or float32."""

    outputs: tuple[Judged, ...]
    judge: str
    truth: str

    @property
    def failed(self) -> Judged | None:
        """The output that fails by most, if one does."""
        wrong = [one for one in self.outputs if not one.passed]
        return max(wrong, key=lambda one: one.share, default=None)

    @property
    def undecided(self) -> str:
        """Why at least one output was not decided, or ''."""
        return next((one.undecided for one in self.outputs if one.undecided), "")


def judge(
    make_truth: MakeTruth,
    got: Sequence[Tensor],
    trusted: Sequence[Tensor],
    names: Sequence[str],
    *,
    seed: int,
    by: str,
) -> Judgement:
    """Return the judgement of one call. `got` and `trusted` agree in shapes and dtypes.

    Raises what `make_truth` raises.
    """
    wanted = [index for index, tensor in enumerate(trusted) if _known(tensor)]
    specs = [_spec(names[index], trusted[index]) for index in range(len(trusted))]
    truth = make_truth(specs, seed)
    found: dict[int, Judged] = {}
    again: Truth | None = None
    for index in wanted:
        first = compare(got[index], truth.outputs[index])
        if first.passed:
            found[index] = _judged(first)
            continue
        if not compare(trusted[index], truth.outputs[index]).passed:
            why = "the trusted operator's own result fails as well"
            found[index] = Judged(output=first.output, passed=True, undecided=why)
            continue
        again = again or make_truth(specs, seed + 1)
        second = compare(got[index], again.outputs[index])
        found[index] = _judged(first if not second.passed else second)
    outputs = tuple(
        found.get(index)
        or Judged(
            output=names[index],
            passed=True,
            undecided=f"output '{names[index]}' is of an unjudged dtype",
        )
        for index in range(len(trusted))
    )
    return Judgement(outputs=outputs, judge=by, truth=truth.kind)


def _judged(one: Comparison) -> Judged:
    worst = one.worst
    return Judged(
        output=one.output,
        passed=one.passed,
        share=one.share,
        statistic=worst.name if worst else "contract",
        measured=worst.value if worst else 0.0,
        allowed=worst.limit if worst else 0.0,
        group=worst.group if worst else one.mismatch,
        undecided=one.undecided,
        relative_error=one.relative_error,
        bias=one.bias,
    )


def _known(tensor: Tensor) -> bool:
    return str(tensor.dtype).removeprefix("torch.") in {member.value for member in DType}


def _spec(name: str, tensor: Tensor) -> TensorSpec:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorSpec(
        name=name,
        dtype=DType(dtype) if _known(tensor) else DType.FLOAT32,
        shape=tuple(f"axis{index}" for index in range(tensor.dim())),
        domain=Real(),
    )


def differentiated(
    fn: Callable[..., object], wanted: Sequence[int], count: int
) -> Callable[..., object]:
    """Return a function of `count` inputs and upstream gradients that gives the gradients.

    `wanted` are the places of inputs that require one. Outputs without a gradient path and
    inputs that do not reach any output give zeros.
    """

    def gradients(*values: Tensor) -> tuple[Tensor, ...]:
        inputs, upstream = list(values[:count]), values[count:]
        with torch.enable_grad():
            for index in wanted:
                inputs[index] = inputs[index].detach().requires_grad_(True)
            outputs = _tensors(fn(*inputs))
            pairs = [
                (one, given)
                for one, given in zip(outputs, upstream, strict=True)
                if one.requires_grad
            ]
            leaves = [inputs[index] for index in wanted]
            found = torch.autograd.grad(
                [one for one, _ in pairs],
                leaves,
                [given for _, given in pairs],
                allow_unused=True,
            )
        return tuple(
            torch.zeros_like(leaf) if grad is None else grad.detach()
            for leaf, grad in zip(leaves, found, strict=True)
        )

    gradients.__name__ = f"gradient of {getattr(fn, '__name__', 'the trusted operator')}"
    return gradients


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [one for item in value.values() for one in _tensors(item)]
    if isinstance(value, list | tuple):
        return [one for item in value for one in _tensors(item)]
    return []
