"""Every input and scalar moved alone, as pairs: an argument that the kernel ignores shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from cuassay.inputs.fills import default_fill, family
from cuassay.inputs.geometry import tensor_inputs
from cuassay.inputs.planner import Planner
from cuassay.inputs.regimes import Regime, fill, usual_scalar
from cuassay.inputs.scalars import moved_scalar
from cuassay.inputs.small import small_sizes
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Opaque
from cuassay.model.problem import ScalarSpec

_BASE = Regime(name="arguments", main=fill("normal"), index=Fill(kind="uniform"))
# A scalar may act on small data only (an epsilon) or on large data only (a soft-cap).
# Outliers go beyond any cap, and beyond 88, where exp overflows float32.
_LOUD = Regime(name="arguments, large data", main=fill("outlier", scale=20.0))
_QUIET = Regime(name="arguments, small data", main=fill("normal", scale=0.05))


def arguments(planner: Planner) -> tuple[Case, ...]:
    """Return pairs in order: position 2k is a base case, 2k+1 differs in one argument.

    The label of the odd case is `<input> moved`, of the even one `base for <input>`; both
    share the seed, so every other input holds the same values. All axes are at least 2 and,
    where the domain allows, different primes. Inputs that only the problem's generator can
    make are left out.
    """
    pairs: list[Case] = []
    sizes = small_sizes(planner)
    for spec in tensor_inputs(planner.problem):
        if not isinstance(spec.domain, Opaque):
            base = _base(planner, sizes, _BASE, name=spec.name)
            # The base case with other values in one tensor: same regime, another seed.
            own = base.fills.get(spec.name) or default_fill(spec)
            kind = "normal" if family(spec) == "real" else own.kind
            # A weight that begins with ones: a kernel may look at its beginning alone.
            kind = "leading_ones" if kind == "normal" and own == _BASE.side else kind
            moved = Fill(kind=kind, parameters={**own.parameters, "salt": 1})
            moved_tensor = dataclasses.replace(
                base, label=f"{spec.name} moved", fills={**base.fills, spec.name: moved}
            )
            pairs += [base, moved_tensor]
    for scalar in planner.problem.inputs:
        if isinstance(scalar, ScalarSpec):
            pairs += _moved_scalars(planner, sizes, scalar)
    return tuple(pairs)


def _base(planner: Planner, sizes: dict[str, int], regime: Regime, *, name: str) -> Case:
    return planner.case(
        f"base for {name}",
        sizes,
        regime,
        workload=planner.first_workload,
        seed_path=(regime.name,),
    )


def _moved_scalars(planner: Planner, sizes: dict[str, int], spec: ScalarSpec) -> Iterator[Case]:
    """Yield pairs to the far end of the scalar's range, and on large data to the other end."""
    usual = usual_scalar(spec, planner.first_workload, seed=0)
    moved = moved_scalar(spec, usual)
    if moved is None:
        return
    moves = [(_QUIET, moved), (_LOUD, moved)]
    other = moved_scalar(spec, moved)
    if other is not None and other != usual:
        moves.append((_LOUD, other))
    for regime, value in moves:
        base = _base(planner, sizes, regime, name=spec.name)
        base = dataclasses.replace(base, scalars={**base.scalars, spec.name: usual})
        yield base
        yield dataclasses.replace(
            base, label=f"{spec.name} moved", scalars={**base.scalars, spec.name: value}
        )
