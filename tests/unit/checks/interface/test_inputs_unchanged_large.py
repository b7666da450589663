"""API001: an input that only a large call writes."""

from __future__ import annotations

import pytest
import torch

from cuassay.checks.interface.inputs_unchanged import Api001
from cuassay.model.outcome import FindingClass
from tests.support.fake_trial import examine, scaled_add


@pytest.mark.parametrize("large", [True, False])
def test_an_input_that_a_large_call_alone_uses_as_scratch_is_found(large: bool) -> None:
    def scratch(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        y = x * gain + bias
        if large and x.numel() > 1000:
            x.zero_()
        return y

    found = examine(Api001(), scaled_add(), lambda: scratch)
    assert [finding.finding_class for finding in found] == [FindingClass.WRONG] * large
