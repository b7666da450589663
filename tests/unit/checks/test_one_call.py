"""One call that may end in any way, and sums that fail because equal answers count often."""

from __future__ import annotations

import torch

from cuassay.checks.one_call import copies_explain
from cuassay.oracle.compare.groups import Statistic
from cuassay.oracle.compare.outputs import Comparison


def _failed(*statistics: tuple[str, float], mismatch: str = "") -> Comparison:
    return Comparison(
        output="y", passed=False, share=2.0, mismatch=mismatch,
        statistics=tuple(
            Statistic(name=name, value=value, limit=2.5, group="g") for name, value in statistics
        ),
    )  # fmt: skip


_SAME = torch.ones(100)  # one distinct value: the limit grows by ten


def test_equal_answers_err_alike_and_a_sum_of_them_may_be_so_much_larger() -> None:
    assert copies_explain(_SAME, _failed(("G", 24.0), ("Z", 2.0)))
    assert not copies_explain(_SAME, _failed(("G", 26.0)))
    assert not copies_explain(torch.arange(100.0), _failed(("G", 3.0)))


def test_single_elements_are_judged_as_ever() -> None:
    assert not copies_explain(_SAME, _failed(("W", 3.0)))
    assert not copies_explain(_SAME, _failed(("G", 3.0), ("W", 3.0)))
    assert not copies_explain(_SAME, _failed(("G", 3.0), mismatch="shape"))
    assert not copies_explain(_SAME, _failed(("G", 2.0)))
