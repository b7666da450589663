"""A large batch of duplicates: samples whose gradients differ, beyond the batches of the run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from cuassay.model.loop import Start
from cuassay.model.verdict import Decision
from cuassay_loops.kernels import KernelFault, NoVerdict, Value, local_kernel
from cuassay_loops.results import Cell, Duplicates
from cuassay_loops.train import duplicates
from cuassay_loops.train.cell import run_cell
from cuassay_loops.train.story import decide_matrix, ranges
from tests.support import loop_faults as faults
from tests.support import loops

_CELL = Cell(data="real", optimizer="sgd", precision="bf16", seed=0)


def _found(call: faults.Run, site: str, *, preset: object = loops.MICRO) -> Duplicates:
    kernel = local_kernel(call, loops.problem(site))
    return duplicates.probe(_CELL, loops.settings(site, kernel, preset=preset))


@pytest.mark.parametrize("pair", faults.DUPLICATES, ids=lambda pair: pair[1].__name__)
def test_late_samples_that_go_wrong_are_named(pair: tuple[str, faults.Run, faults.Run]) -> None:
    site, fault, twin = pair
    found = _found(fault, site)
    assert found.left
    assert found.draws == 6
    assert set(found.wrong) <= set(range(24, 32))
    assert bool(found.wrong) is (site == "swiglu_backward")
    decision, reason = decide_matrix([], probes=[found])
    assert decision is Decision.REJECTED
    assert "a batch of 32 duplicates" in reason
    right = _found(twin, site)
    assert not right.left
    assert right.draws == 1
    assert right.noise_spread > 0.0


def test_batches_of_the_run_do_not_show_it() -> None:
    site, fault, _ = faults.DUPLICATES[0]
    kernel = local_kernel(fault, loops.problem(site))
    assert not run_cell(_CELL, loops.settings(site, kernel, steps=7)).left


def test_experts_are_those_of_the_one_sample() -> None:
    found = _found(faults.gather_counted, "moe_gather", preset=loops.MICRO_MOE)
    assert not found.left
    assert found.noise_spread < 0.05


def test_how_a_kernel_ends_the_probe_is_told() -> None:
    def failing(error: Exception, least: int) -> Duplicates:
        plain = loops.zoo_kernel("rmsnorm", "eps_outside_root", folder="twins")

        def kernel(values: Sequence[Value]) -> tuple[torch.Tensor, ...]:
            x = values[0]
            assert isinstance(x, torch.Tensor)
            if len(x) > least:
                raise error
            return plain(values)

        return duplicates.probe(_CELL, loops.settings("rmsnorm", kernel))

    assert failing(KernelFault("it died"), 0).failure == "it died"
    tokens = loops.MICRO.batch * loops.MICRO.length
    smaller = failing(NoVerdict("out of memory"), 2 * tokens)
    assert (smaller.samples, smaller.undecided) == (16, "")
    never = failing(torch.OutOfMemoryError("out of memory"), 0)
    assert "32 samples: out of memory" in never.undecided
    assert decide_matrix([], probes=[never])[0] is Decision.INCONCLUSIVE


def test_numbers_are_told_as_ranges() -> None:
    assert ranges([1, 2, 3, 7]) == "1-3, 7"
    assert ranges([0, 2, 4, 6, 8]) == "0, 2, 4, 6, ..."
    assert Duplicates(precision="bf16", start=Start.SCRATCH, samples=8).left is False
