"""Regimes: what every input of a case is filled with, from the most telling to the rarest.

Main inputs (the highest rank among real tensors) take the regime; side inputs, such as norm
weights and biases, are drawn at random and never left at ones or zeros, since a kernel that
ignores them would go unseen. Positive inputs keep a consistent size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cuassay.inputs.fills import default_fill, family
from cuassay.inputs.geometry import tensor_inputs
from cuassay.inputs.scalars import default_scalar, drawn_scalar
from cuassay.inputs.seeds import derive
from cuassay.model.case import ALSO, Fill
from cuassay.model.domain import Opaque, Positive, Probability, Real, SizeOf, Swizzled
from cuassay.model.problem import Problem, Scalar, ScalarSource, ScalarSpec, TensorSpec, Workload

_HALF_SCALE = 0.1  # float16 ends at 65504: products of two large inputs should mostly fit


_SIDE = Fill(kind="normal", parameters={"mean": 1.0, "scale": 0.5})
_ANY_INDEX = Fill(kind="sentinel")
# Lengths and offsets beside indices of a kind: where few rows have all hits, one part is long.
_RAGGED: Mapping[str, Mapping[str, Fill]] = {
    "lengths": {
        "zipf": Fill(kind="edges"),
        "single_hot": Fill(kind="full"),
        "two_hot": Fill(kind="one_long"),
    },
    "offsets": {"zipf": Fill(kind="ragged"), "single_hot": Fill(kind="ragged")},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """One kind of data. `usual_scalars` keeps the scalars that the problem usually passes.

    With `others` an input whose domain has numbers that are not finite holds the one of them at
    this place, the places counted round.
    """

    name: str
    main: Fill
    side: Fill = _SIDE
    index: Fill = _ANY_INDEX
    usual_scalars: bool = True
    others: int | None = None


def fill(kind: str, **parameters: float) -> Fill:
    """Return a Fill with numeric parameters."""
    return Fill(kind=kind, parameters=parameters)


_ZERO_MEAN_SIDE = fill("normal", scale=1.0)
ZIPF, STEEP = fill("zipf", exponent=1.0), fill("zipf", exponent=1.2)
SINGLE, TWO, SPREAD = Fill(kind="single_hot"), Fill(kind="two_hot"), Fill(kind="uniform")

# The first four are `quick`, the first thirteen `standard`, all of them `deep`.
NUMERIC: tuple[Regime, ...] = (
    Regime(name="normal", main=fill("normal")),
    # An epsilon matters here and nowhere else, so it must not be the one that is always passed.
    Regime(name="small", main=fill("normal", scale=1e-3), index=ZIPF, usual_scalars=False),
    Regime(
        name="large with outliers",
        main=fill("outlier", scale=20.0),
        side=_ZERO_MEAN_SIDE,
        usual_scalars=False,
        others=0,
    ),
    Regime(name="same sign", main=fill("same_sign"), index=ZIPF, usual_scalars=False, others=1),
    # Every index is the last one (row counts are clipped to it), where the peak is.
    Regime(name="confident", main=Fill(kind="confident"), index=fill("single_hot", row=2.0**40)),
    Regime(name="offset", main=fill("offset", mean=3.0), side=_ZERO_MEAN_SIDE, others=2),
    Regime(name="sigma 30", main=fill("normal", scale=30.0), index=TWO),
    # A row of zeros (padding) has no largest value to divide by, and all its elements tie. Few
    # enough, so that ties leave a top-k's other rows to judge.
    Regime(name="mixed row sizes", main=fill("mixed_scale", zero=1 / 32), index=ZIPF),
    Regime(name="near-constant rows", main=Fill(kind="near_constant"), usual_scalars=False),
    Regime(name="cancelling", main=Fill(kind="cancelling"), index=STEEP),
    Regime(name="sigma 5", main=fill("normal", scale=5.0), usual_scalars=False),
    Regime(name="Cauchy", main=Fill(kind="cauchy"), side=_ZERO_MEAN_SIDE),
    Regime(name="small integers", main=Fill(kind="small_integers"), index=ZIPF),
    Regime(name="large mean", main=Fill(kind="large_mean_small_variance")),
    Regime(name="log-normal", main=Fill(kind="lognormal"), usual_scalars=False),
    Regime(name="sigma 0.1", main=fill("normal", scale=0.1), usual_scalars=False),
    Regime(name="one-hot", main=Fill(kind="one_hot")),
    Regime(name="powers of two", main=Fill(kind="powers_of_two"), index=SINGLE),
    Regime(name="alternating", main=Fill(kind="alternating"), index=TWO),
    Regime(name="late peak", main=Fill(kind="late_peak"), usual_scalars=False),
    Regime(name="ones", main=Fill(kind="ones"), index=SINGLE),
    Regime(name="low-order bits", main=Fill(kind="low_bits")),
    # Beyond 65504, where a cast to float16 overflows.
    Regime(name="sigma 1e5", main=fill("normal", scale=1e5), index=Fill(kind="sorted")),
    Regime(name="zeros", main=Fill(kind="zeros")),
    Regime(name="sorted", main=Fill(kind="sorted"), index=Fill(kind="distinct")),
    Regime(name="sigma 10", main=fill("normal", scale=10.0), index=SINGLE),
    Regime(name="constant", main=Fill(kind="constant"), index=SPREAD),
    Regime(name="tiny", main=Fill(kind="tiny"), index=SPREAD),
)

# Hot keys: zero-mean terms detect mild low-precision accumulation, one sign shows the damage.
HOT_INDEX: tuple[Regime, ...] = (
    Regime(name="single-hot, zero mean", main=fill("normal"), index=SINGLE),
    Regime(name="Zipf 1.0, same sign", main=fill("same_sign"), index=ZIPF),
    Regime(name="two-hot, offset", main=fill("offset", mean=1.0), index=TWO),
    Regime(name="Zipf 1.2, zero mean", main=fill("normal"), index=STEEP),
    Regime(name="single-hot, same sign", main=fill("same_sign"), index=SINGLE),
    Regime(name="Zipf 1.0, cancelling", main=Fill(kind="cancelling"), index=ZIPF),
    Regime(name="single-hot, ones", main=Fill(kind="ones"), index=SINGLE),
    Regime(name="two-hot, zero mean", main=fill("normal"), index=TWO),
    Regime(name="Zipf 1.0, zero mean", main=fill("normal"), index=ZIPF),
    Regime(name="Zipf 1.2, same sign", main=fill("same_sign"), index=STEEP),
)

# No side input is ones beside main inputs of ones: then all errors of a row are one error,
# and statistics over the row count it as many.
HOT_SUM: tuple[Regime, ...] = (
    Regime(name="zero mean", main=fill("normal")),
    Regime(name="same sign", main=fill("same_sign")),
    Regime(name="cancelling", main=Fill(kind="cancelling")),
    Regime(name="offset", main=fill("offset", mean=3.0)),
    Regime(name="small integers", main=Fill(kind="small_integers")),
    Regime(name="sigma 30", main=fill("normal", scale=30.0)),
    Regime(name="cancelling rows", main=fill("cancelling", axis=-1)),
    Regime(name="mixed row sizes", main=Fill(kind="mixed_scale")),
)


def fills_for(problem: Problem, regime: Regime) -> dict[str, Fill]:
    """Return the fill of every tensor input but the opaque ones."""
    rank = main_rank(problem)
    return {
        spec.name: _with_others(_fill_of(spec, regime, rank), spec, regime)
        for spec in tensor_inputs(problem)
        if not isinstance(spec.domain, Opaque)
    }


def _with_others(chosen: Fill, spec: TensorSpec, regime: Regime) -> Fill:
    """Return the fill with one of the numbers beside the finite ones, where the regime has any."""
    if regime.others is None or not isinstance(spec.domain, Real) or not spec.domain.also:
        return chosen
    also = spec.domain.also
    return Fill(
        kind=chosen.kind,
        parameters={**chosen.parameters, ALSO: also[regime.others % len(also)]},
    )


def main_rank(problem: Problem) -> int:
    """Return from how many dimensions on a real tensor is a main input; others are side inputs."""
    ranks = [
        len(spec.shape)
        for spec in tensor_inputs(problem)
        if family(spec) == "real" and not isinstance(spec.domain, Positive | Swizzled | Opaque)
    ]
    return min(max(ranks, default=0), 2)


def _fill_of(spec: TensorSpec, regime: Regime, rank: int) -> Fill:
    kind = family(spec)
    if kind == "index":
        return regime.index
    if kind in ("lengths", "offsets"):
        return _RAGGED[kind].get(regime.index.kind, default_fill(spec))
    if kind != "real":
        return default_fill(spec)
    if isinstance(spec.domain, Positive | Swizzled):
        return default_fill(spec)
    if isinstance(spec.domain, Probability):
        return fill("normal", scale=2.0)
    chosen = regime.main if len(spec.shape) >= rank else regime.side
    scale = chosen.parameters.get("scale", 1.0)
    narrow = (
        spec.dtype.float_format.maximum < 1e5
        if spec.dtype.is_floating and spec.dtype.is_liftable
        else False
    )
    if not narrow or not isinstance(scale, float) or scale < 10.0:
        return chosen
    return Fill(kind=chosen.kind, parameters={**chosen.parameters, "scale": scale * _HALF_SCALE})


def scalars_for(
    problem: Problem, workload: Workload | None, *, seed: int, usual: bool = True
) -> dict[str, Scalar]:
    """Return every scalar that no axis decides: the usual value, or one drawn by `seed`."""
    values: dict[str, Scalar] = {}
    for spec in problem.inputs:
        if isinstance(spec, ScalarSpec) and not isinstance(spec.domain, SizeOf):
            own = derive(seed, "scalar", spec.name)
            values[spec.name] = (
                usual_scalar(spec, workload, seed=own) if usual else drawn_scalar(spec, seed=own)
            )
    return values


def usual_scalar(spec: ScalarSpec, workload: Workload | None, *, seed: int) -> Scalar:
    """Return what the workload passes, else the spec's default, else a legal value."""
    source = workload.sources.get(spec.name) if workload else None
    if isinstance(source, ScalarSource):
        return source.value
    return default_scalar(spec, seed=seed)
