"""What a plan may cost is bounded by the GPU memory that a trial is given."""

from __future__ import annotations

import pytest

from cuassay.cli import options
from cuassay.errors import UsageError
from cuassay.inputs.budget import budget_for, planned_memory_gib
from cuassay.model.device import CPU, CUDA, Device
from cuassay.model.verdict import Profile


def test_less_memory_means_fewer_elements_and_as_many_cases() -> None:
    whole = budget_for(Profile.QUICK, device=CUDA)
    small = budget_for(Profile.QUICK, device=Device("cuda:0"), memory_gib=8.0)
    least = budget_for(Profile.QUICK, device=CUDA, memory_gib=1.0)
    assert whole.numeric_elements > small.numeric_elements > least.numeric_elements
    assert small.numeric_elements * 64 <= 6.5 * 2**30
    assert small.numeric_cases == whole.numeric_cases
    assert budget_for(Profile.QUICK, device=CPU, memory_gib=1.0) == budget_for(
        Profile.QUICK, device=CPU
    )


def test_quick_plans_with_8_gib_unless_told_otherwise() -> None:
    assert planned_memory_gib(Profile.QUICK, None) == 8.0
    assert planned_memory_gib(Profile.QUICK, 24.0) == 24.0
    assert planned_memory_gib(Profile.STANDARD, None) is None


@pytest.mark.parametrize(("text", "gib"), [("8", 8.0), ("8GiB", 8.0), ("512 MiB", 0.5)])
def test_sizes_of_memory_are_read(text: str, gib: float) -> None:
    assert options.memory_gib(text, option="--gpu-memory") == gib


@pytest.mark.parametrize("text", ["", "much", "-1", "1KiB", "0"])
def test_what_is_no_size_of_memory_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected 256MiB or more"):
        options.memory_gib(text, option="--gpu-memory")
