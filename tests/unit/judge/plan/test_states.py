"""States of loops come from the distribution that has them, which is imported when asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cuassay.errors import MissingToolError
from cuassay.judge.plan import states
from cuassay.parts import Part


def test_the_judge_imports_no_loops_before_they_are_asked_for() -> None:
    text = "import sys, cuassay.judge.plan.states; print('cuassay_loops' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_installed_loops_plan_cases_and_make_inputs() -> None:
    found = states.loop_states()
    assert callable(found.plan)
    assert callable(found.inputs)


def test_without_the_loops_the_message_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(part: Part) -> object:
        assert part is Part.LOOP_STATES
        raise MissingToolError("pip install cuassay-loops")

    monkeypatch.setattr(states, "find_part", missing)
    with pytest.raises(MissingToolError, match="cuassay-loops"):
        states.loop_states()
