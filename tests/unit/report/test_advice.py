"""Advice names codes that exist, and serves the others."""

from __future__ import annotations

from cuassay.checks.registry import codes
from cuassay.report import advice


def test_advice_names_codes_that_exist_and_serves_the_others() -> None:
    assert set(advice._BY_CODE) <= set(codes())
    assert set(codes()) <= set(advice._BY_CODE), "say in report/advice.py what to try"
    assert all(advice.advice(code) for code in ("NEW999", "MEM999", "run", ""))
