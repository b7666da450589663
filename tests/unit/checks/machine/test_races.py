"""Which condition an order that nothing gives becomes."""

from __future__ import annotations

import pytest

from cuassay.checks.machine.races import Race101
from cuassay.model.machine import MachineFault


@pytest.mark.parametrize(
    ("kind", "severity", "words"),
    [
        ("unordered", "note", "which of two strong accesses"),
        ("missing-acquire-fence", "note", "which of two strong accesses"),
        ("missing-tensor-fence", "note", "tcgen05.fence::after_thread_sync"),
        ("missing-tensor-fence", "wrong", ""),
        ("missing-tensor-wait", "note", "without a tcgen05.wait::ld"),
        ("race", "note", ""),
    ],
)
def test_the_condition_names_the_order_that_is_missing(
    kind: str, severity: str, words: str
) -> None:
    fault = MachineFault(kind=kind, severity=severity, text="between two accesses")
    condition = Race101().condition_of(fault)
    assert condition.startswith("order: ") if words else not condition
    assert words in condition
