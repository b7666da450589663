"""The kernels of docs/ranks.md: the one that fails does, in two ways, and its mend is right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.fake_trial import OracleTrial
from tests.support.ranked import findings, function_of, ranked

from cuassay.checks.ranks.agreement import Rank002
from cuassay.checks.ranks.late import Rank001
from cuassay.formats import load_problem
from cuassay.formats.execute import load_reference

_PAGE = (Path(__file__).parents[2] / "docs/ranks.md").read_text(encoding="utf-8")
_PROBLEM, _FAILS, _MEND = re.findall(r"```python\n(.*?)```", _PAGE, re.DOTALL)
_WAIT, _SCALED = "    begun.wait()\n", "    scaled = y * 1.0\n"
_EXCHANGED = _FAILS.replace(_SCALED + _WAIT, _WAIT + _SCALED).replace("return scaled", "return y")


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> OracleTrial:
    path = tmp_path_factory.mktemp("page") / "problem.py"
    path.write_text(_PROBLEM)
    problem = load_problem(str(path))
    return OracleTrial(problem, load_reference(problem).call)


def test_the_kernel_that_fails_is_wrong_without_a_late_rank(trial: OracleTrial) -> None:
    with ranked(function_of(_FAILS), trial) as called:
        assert next(findings(Rank002(), trial, called))


def test_with_the_lines_exchanged_its_result_is_overwritten(trial: OracleTrial) -> None:
    assert _EXCHANGED.count("return y") == _EXCHANGED.count(_WAIT + _SCALED) == 1
    with ranked(function_of(_EXCHANGED), trial) as called:
        assert not list(findings(Rank002(), trial, called))
        assert "wrong in call 1 of 4" in next(findings(Rank001(), trial, called)).message


def test_the_mend_is_right(trial: OracleTrial) -> None:
    with ranked(function_of(_MEND), trial) as called:
        assert not [
            one for check in (Rank001(), Rank002()) for one in findings(check, trial, called)
        ]
