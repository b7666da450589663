"""The fixture `ptxsan_check`: a kernel's check as a test's assertion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ptxsan.api import Report


class Checker:
    """Calls `ptxsan.check` and fails the test with the report where something is wrong."""

    def __call__(self, *arguments: Any, **options: Any) -> Report:
        """Check a kernel as `ptxsan.check` does; return the report of a clean one."""
        from ptxsan.api import check

        report = check(*arguments, **options)
        if not report.ok:
            pytest.fail(report.text, pytrace=False)
        return report


@pytest.fixture
def ptxsan_check() -> Checker:
    """Return a function that executes a kernel and fails the test on what it finds."""
    return Checker()
