"""Slices of a problem's own inputs that never change: found in inputs of any size."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from cuassay.contract.accept import own_case
from cuassay.contract.breaks import Values
from cuassay.contract.slices import row_keys, slice_cases
from cuassay.formats.execute import load_reference
from cuassay.inputs.case_inputs import case_inputs
from cuassay.model.case import Case
from cuassay.model.device import CPU
from tests.unit.contract.problems import foreign


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.float32, torch.int64])
def test_keys_of_slices_are_equal_where_the_slices_are(dtype: torch.dtype) -> None:
    made = torch.randint(0, 2, (6, 5, 7), generator=torch.Generator().manual_seed(3)).to(dtype)
    made[4] = made[1]
    for dim, size in enumerate(made.shape):
        keys = row_keys(made, dim)
        for one in range(size):
            for other in range(size):
                same = torch.equal(made.select(dim, one), made.select(dim, other))
                assert bool(keys[one] == keys[other]) == same


def test_slices_of_a_long_cache_are_found_in_no_time_and_changed_in_part(tmp_path: Path) -> None:
    problem = foreign(
        tmp_path,
        "import torch\n\ndef get_inputs(axes_and_scalars, device):\n"
        "    n = axes_and_scalars['n']\n"
        "    cache = torch.zeros(n, 8)\n    cache[: n // 4] = torch.randn(n // 4, 8)\n"
        "    return {'cache': cache}\n\ndef run(cache):\n    return cache * 2\n",
        axes=("n",),
        inputs={"cache": (("n", "8"), "float32")},
        output=("n", "8"),
        sizes=({"n": 1 << 16},),
        generator="get_inputs",
    )
    reference = load_reference(problem)
    base = own_case(problem, {"n": 1 << 16}, seed=1, label="own")

    def inputs(case: Case) -> Values:
        return case_inputs(problem, case, device=CPU, reference=reference)

    def run(values: Values) -> list[torch.Tensor]:
        made = reference.call(*values.values())
        assert isinstance(made, torch.Tensor)
        return [made]

    cases = slice_cases(
        problem,
        base,
        (),
        most=2,
        runs=[inputs(dataclasses.replace(base, seed=seed)) for seed in range(3)],
        run=run,
        inputs=inputs,
        seed=lambda name: 5,
    )
    assert len(cases) == 2
    for case in cases:
        places = case.fills["cache"].parameters["slices"]
        assert isinstance(places, tuple)
        assert 512 <= len(places) <= 1024
        assert min(map(int, places)) >= 1 << 14
