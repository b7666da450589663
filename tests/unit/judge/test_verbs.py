"""What a waiting judge does before its job is known."""

from __future__ import annotations

import pytest

from cuassay.judge import verbs
from cuassay.judge.trial import JudgeTrial
from cuassay.model.case import Case
from cuassay.oracle.truth.make import Truth


def test_a_rehearsal_makes_a_truth_of_each_of_its_operators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    asked = JudgeTrial.truth

    def noted(self: JudgeTrial, case: Case) -> Truth:
        made.append(self.problem.name)
        return asked(self, case)

    monkeypatch.setattr(JudgeTrial, "truth", noted)
    verbs.rehearse("cpu")
    assert tuple(dict.fromkeys(made)) == verbs._REHEARSED
