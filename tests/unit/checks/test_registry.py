"""The registry: running order, pages of every code, and no torch at import time."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest

from cuassay.checks.needs import Group
from cuassay.checks.registry import HEADINGS, all_checks, codes, page
from cuassay.errors import NothingToCheckError, UnknownNameError
from cuassay.model.verdict import Profile
from tests.support.fake_trial import gather, row_sum, scaled_add


def test_the_order_is_host_state_first() -> None:
    order = [check.code for check in all_checks()]
    assert order == [
        "API005",
        "API002",
        "API001",
        "API003",
        "API004",
        "PROC001",
        "STATE001",
        "MEM001",
        "MEM002",
        "MEM004",
        "KNOWN001",
        "NUM001",
        "NUM002",
        "NUM004",
        "NUM005",
        "META001",
        "SHP001",
        "SHP002",
        "FUZZ001",
        "NUM003",
        "LAYOUT001",
        "GRAD001",
        "LOOP001",
        "LOOP002",
        "DET001",
        "DET002",
        "GHOST001",
        "CONFIG001",
        "OPCHECK001",
        "KERNEL001",
        "COMPILE001",
        "MEM101",
        "INIT101",
        "RACE101",
        "SYNC101",
        "PREC101",
        "STREAM101",
        "LAUNCH101",
        "BIG002",
        "APART001",
        "RANK001",
        "RANK002",
        "RANK003",
        "PERF001",
        "STREAM001",
        "GRAPH001",
        "DEVICE001",
        "BIG001",
        "RACE001",
        "MEM003",
    ]
    groups = [check.needs.group for check in all_checks()]
    groups = [group for group in groups if group is not Group.NONE]
    assert len(dict.fromkeys(groups)) == sum(
        1 for i, group in enumerate(groups) if i == 0 or groups[i - 1] != group
    )


@pytest.mark.parametrize("code", codes())
def test_every_page_has_every_heading(code: str) -> None:
    found = page(code.lower())
    assert found.code == code
    assert found.title
    assert tuple(heading for heading, _ in found.sections) == HEADINGS
    assert all(text for _, text in found.sections)
    assert not any("  " in line for _, text in found.sections for line in text.splitlines())


def test_page_and_check_share_one_title() -> None:
    for check in all_checks():
        assert page(check.code).title == check.title
        assert check.classes


def test_an_unknown_code_is_answered_with_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'STATE001'\?"):
        page("STAT001")


def test_neither_pages_nor_checks_load_torch() -> None:
    code = (
        "import sys\n"
        "from cuassay.checks.registry import all_checks, page\n"
        "page('NUM001'); all_checks()\n"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_scenarios_are_small_data_that_survive_json() -> None:
    from cuassay.model import serial
    from cuassay.model.scenario import Scenario

    for trial in (scaled_add(), row_sum(), gather()):
        for profile in Profile:
            trial.profile = profile
            for check in all_checks():
                if profile is Profile.DEEP and check.code in ("NUM001", "NUM002"):
                    continue
                with contextlib.suppress(NothingToCheckError):
                    for scenario in check.propose(trial):
                        text = serial.dumps(scenario)
                        assert serial.loads(Scenario, text) == scenario
                        assert len(text) < 200_000
