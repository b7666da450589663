"""The other half of the zoo's pairs; see test_verdicts.py."""

from __future__ import annotations

import pytest

from tests.zoo.judging import Gate
from tests.zoo.verdicts import Trial, half, judged_rightly


@pytest.mark.parametrize("trial", half(1), ids=str)
def test_bug_is_rejected_and_twin_accepted(trial: Trial, gate: Gate, secret_seed: int) -> None:
    judged_rightly(trial, gate, secret_seed)
