"""Exceptions carry the line of the text, and the compiler's log."""

from __future__ import annotations

import pytest

from ptxsan import errors


def test_a_line_stands_in_front_where_one_is_at_fault() -> None:
    assert str(errors.MachineError("no such thing", line=7)) == "PTX line 7: no such thing"
    assert str(errors.MachineError("too large")) == "too large"
    assert errors.MachineError("x", line=7).line == 7


def test_a_log_follows_what_was_compiled() -> None:
    error = errors.CompileError("k.cu does not compile", "line 3: error")
    assert (str(error), error.log) == ("k.cu does not compile\nline 3: error", "line 3: error")
    assert str(errors.CompileError("k.cu")) == "k.cu"


@pytest.mark.parametrize("kind", [errors.LaunchError, errors.CompileError, errors.UsageError])
def test_every_error_on_purpose_has_one_base(kind: type[Exception]) -> None:
    assert issubclass(kind, errors.PtxsanError)
    assert issubclass(errors.LaunchError, errors.MachineError)
