"""Which line of a candidate is shown for a finding, and every form of every verdict."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import jsonschema
import pytest

from cuassay import __version__
from cuassay.cli.sinks import rule
from cuassay.report import github, markdown
from cuassay.report.agent import agent_document
from cuassay.report.judged import Judged, line_shown
from cuassay.report.junit import junit
from cuassay.report.sarif import sarif
from tests.support import samples
from tests.support.judged import ROOT, judged_kernel
from tests.support.snapshot import assert_snapshot

_SCHEMA = Path(__file__).parents[2] / "data" / "sarif" / "sarif-2.1.0-rtm.4.json"


_VERDICTS = {
    "accepted": samples.accepted(),
    "rejected": samples.rejected(),
    "inconclusive": samples.inconclusive(),
    "nasty": samples.nasty(),
}


def _log(*trials: Judged) -> dict[str, object]:
    found = sarif(trials, rules=rule, version=__version__)
    jsonschema.validate(found, json.loads(_SCHEMA.read_text()))
    return found


@pytest.mark.parametrize("name", _VERDICTS)
def test_every_form_of_every_verdict(name: str) -> None:
    trial = judged_kernel(_VERDICTS[name])
    log = _log(trial)
    for known in log["runs"][0]["tool"]["driver"]["rules"]:  # type: ignore[index]
        known["help"] = {"text": "(the page of the check)"}  # kept by the registry's own tests
    assert_snapshot(f"sink_{name}.sarif", json.dumps(log, indent=1, ensure_ascii=False))
    assert_snapshot(f"sink_{name}.junit.xml", junit([trial]))
    assert_snapshot(f"sink_{name}.github.txt", github.log([trial], token="TOKEN"))
    assert_snapshot(f"sink_{name}.md.txt", markdown.markdown([trial]))
    agent = json.dumps(agent_document(_VERDICTS[name]), indent=1, ensure_ascii=False)
    assert_snapshot(f"sink_{name}.agent.json", agent)


@pytest.mark.parametrize(
    ("evidence", "line", "exact"),
    [
        ('File "/tmp/x/kernel.py", line 5, in run\nFile "/tmp/x/kernel.py", line 9', 9, True),
        ("kernel.py(4): error: expected ;\nkernel.py(5): error", 4, True),
        ("/tmp/build/kernel.py:8:3: error", 8, True),
        ('File "/usr/lib/torch/nn.py", line 5', 4, False),
        ('File "kernel.py", line 9999', 4, False),
        ("notkernel.py(5)", 4, False),
        ("", 4, False),
    ],
)
def test_the_line_is_the_evidence_s_or_the_definition_s(
    evidence: str, line: int, exact: bool
) -> None:
    finding = dataclasses.replace(samples.hot_rows(), evidence=evidence)
    found = line_shown(finding, judged_kernel(samples.rejected()))
    assert (found.path, found.line, found.exact) == ("kernels/kernel.py", line, exact)


def test_the_line_of_a_sanitizer_or_of_the_machine() -> None:
    trial = judged_kernel(samples.rejected())
    found = dataclasses.replace(samples.hot_rows(), evidence='File "kernel.py", line 9')
    told = dataclasses.replace(found, message="memcheck: read of 4 bytes in f (kernel.py:5)")
    assert line_shown(told, trial).line == 5
    told = dataclasses.replace(found, details=(("access", "load"), ("/b/src/kernel.py:8", "x")))
    assert line_shown(told, trial).line == 8
    assert line_shown(found, trial).line == 9


def test_a_solution_file_stands_for_the_sources_inside_it() -> None:
    trial = judged_kernel(samples.rejected())
    assert trial.candidate is not None
    origin = ROOT / "set" / "solution.json"
    trial = dataclasses.replace(
        trial, candidate=dataclasses.replace(trial.candidate, origin=origin)
    )
    found = line_shown(samples.hot_rows(), trial)
    assert (found.path, found.line) == ("set/solution.json", 1)
    outside = judged_kernel(None, candidate=None, path="/else/k.py", stopped="x")
    uri = outside.name
    assert uri == "/else/k.py"
