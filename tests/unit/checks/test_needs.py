"""What checks need of a trial, and that the needs of each make sense together."""

from __future__ import annotations

from cuassay.checks import registry
from cuassay.checks.needs import Needs, Process, When


def test_only_processes_that_others_may_have_used_are_shared() -> None:
    assert [one for one in Process if one.takes_any] == [Process.ANY, Process.NEW_IF_WRONG]


def test_what_the_machine_executes_needs_no_gpu() -> None:
    needs: list[Needs] = [check.needs for check in registry.all_checks()]
    executed = [one for one in needs if one.when is When.EXECUTED]
    assert len(executed) > 3
    assert not any(one.gpu for one in executed)
