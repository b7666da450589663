"""Native problems of several ranks: one call of all of them, as the judge sees it.

    @problem(ranks=(2, 4), axes={"columns": (1, 65536)}, workloads=[{"columns": 4096}])
    def all_reduce(
        x: Annotated[torch.Tensor, tensor("float32", "ranks", "columns")],
    ) -> Annotated[torch.Tensor, tensor("float32", "columns", name="y")]:
        return x.sum(0)

A kernel is called on each rank, with that rank's part of the inputs. The reference is called once,
with all of them, or with `per_rank` once on each rank, as a thread under a group in which the
collectives of torch.distributed are taken in the reference's own precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.formats.native.axes import AxisForm
from cuassay.formats.native.structured import FLAT
from cuassay.model.domain import SizeOf
from cuassay.model.problem import InputSpec, Scalar, TensorSpec
from cuassay.model.ranks import AXIS, Lies, Ranks
from cuassay.ranks.parts import part_of, rank_count


@dataclass(frozen=True, slots=True, kw_only=True)
class OverRanks:
    """A problem's parts over ranks: its outputs with all ranks' answers, and its reference."""

    ranks: Ranks
    outputs: tuple[TensorSpec, ...]
    call: Callable[..., object]


def with_ranks_axis(
    sizes: Sequence[int],
    axes: Mapping[str, AxisForm],
    workloads: Sequence[Mapping[str, Scalar]],
    *,
    where: str,
) -> tuple[dict[str, AxisForm], list[Mapping[str, Scalar]]]:
    """Return axes and workloads with the axis of ranks; a workload without it has the fewest.

    Raises ProblemError for a number of ranks below 2, and for an axis of that name.
    """
    if not all(type(size) is int and size >= 2 for size in sizes):
        raise ProblemError(
            f"{where}: ranks is {tuple(sizes)}, expected numbers of ranks from 2, such as (2, 4)"
        )
    if AXIS in axes:
        raise ProblemError(f"{where}: axes['{AXIS}'] is the axis of ranks=...; drop it from axes")
    bound: list[Mapping[str, Scalar]] = [{AXIS: min(sizes), **one} for one in workloads]
    return {AXIS: frozenset(sizes), **axes}, bound


def over_ranks(
    function: Callable[..., object],
    inputs: Sequence[InputSpec],
    outputs: Sequence[TensorSpec],
    *,
    split: Sequence[str],
    per_rank: bool,
    where: str,
) -> OverRanks:
    """Return the parts of a problem over ranks. Raises ProblemError.

    `split` names tensors of which each rank has a part of the first axis.
    """
    tensors = [one for one in (*inputs, *outputs) if isinstance(one, TensorSpec)]
    known = {spec.name: spec for spec in tensors}
    for name in split:
        if name not in known:
            raise UnknownNameError("tensor in split", name, known)
        if not known[name].shape:
            raise ProblemError(f"{where}: '{name}' in split has no axis; a number has no parts")
    own = tuple(n for n, one in known.items() if one.shape[:1] == (AXIS,) and n not in split)
    agreed = tuple(one.name for one in outputs if one.name not in (*own, *split))
    counted = any(isinstance(one.domain, SizeOf) and one.domain.axis == AXIS for one in inputs)
    if not counted and not any(one.name in own for one in inputs):
        raise ProblemError(
            f"{where}: no input says how many ranks there are; let one be each rank's own, "
            f'tensor("float32", "{AXIS}", ...), or add Annotated[int, scalar("int32", '
            f'size_of="{AXIS}")]'
        )
    ranks = Ranks(own=own, split=tuple(split), agreed=agreed)
    whole = tuple(
        replace(one, shape=(AXIS, *one.shape)) if one.name in agreed else one for one in outputs
    )
    over_all = _called_on_each if per_rank else _called_once
    call = over_all(function, inputs, outputs, ranks)
    call.__name__ = f"{function.__name__}{FLAT}"
    call.__qualname__ = f"{function.__qualname__}{FLAT}"
    call.__module__, call.__doc__ = function.__module__, function.__doc__
    return OverRanks(ranks=ranks, outputs=whole, call=call)


def _called_once(
    function: Callable[..., object],
    inputs: Sequence[InputSpec],
    outputs: Sequence[TensorSpec],
    ranks: Ranks,
) -> Callable[..., object]:
    """Return the reference with what all ranks must agree on repeated for each."""

    def call(*given: Any) -> object:
        count = rank_count(inputs, given, ranks)
        made = function(*given)
        listed = made if isinstance(made, tuple | list) else (made,)
        whole = tuple(
            one.unsqueeze(0).expand(count, *one.shape) if spec.name in ranks.agreed else one
            for spec, one in zip(outputs, listed, strict=True)
        )
        return whole if isinstance(made, tuple | list) else whole[0]

    return call


def _called_on_each(
    function: Callable[..., object],
    inputs: Sequence[InputSpec],
    outputs: Sequence[TensorSpec],
    ranks: Ranks,
) -> Callable[..., object]:
    """Return the function of one rank as one of all ranks."""

    def call(*given: Any) -> object:
        import torch

        from cuassay.ranks.together import run_together

        count = rank_count(inputs, given, ranks)
        shares = [
            [part_of(value, spec.name, ranks, rank=rank, count=count)
             for spec, value in zip(inputs, given, strict=True)]
            for rank in range(count)
        ]  # fmt: skip
        answers = run_together(lambda rank: function(*shares[rank]), count)
        listed = [one if isinstance(one, tuple | list) else (one,) for one in answers]
        whole = []
        for spec, several in zip(outputs, zip(*listed, strict=True), strict=True):
            together = torch.cat if ranks.lies(spec.name) is Lies.SPLIT else torch.stack
            whole.append(together(list(several)))
        return tuple(whole) if isinstance(answers[0], tuple | list) else whole[0]

    return call
