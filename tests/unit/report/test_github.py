"""GitHub's annotations: within its limit, and only our own commands reach the runner."""

from __future__ import annotations

import re

from cuassay.report import github
from tests.support import samples
from tests.support.judged import judged_kernel, of_findings


def test_annotations_stay_below_githubs_limit_and_count_the_rest() -> None:
    lines = github.annotate([judged_kernel(of_findings(50))]).splitlines()
    assert len(lines) == 9
    assert lines[-1] == "::notice title=cuassay::42 more findings are in the job summary"
    assert all(line.startswith("::warning file=kernels/kernel.py,line=4,") for line in lines[:-1])


def test_only_our_own_commands_reach_the_runner() -> None:
    text = github.log([judged_kernel(samples.nasty())], token="T")
    outside = re.sub(r"::stop-commands::T\n.*?\n::T::", "", text, flags=re.DOTALL)
    commands = [line for line in outside.splitlines() if line.lstrip().startswith("::")]
    assert commands
    assert all(re.match(r"::(error|warning|notice) (file|title)=", line) for line in commands)
    assert "::add-mask::" not in "\n".join(line[:20] for line in commands)
    assert "##[" not in text
