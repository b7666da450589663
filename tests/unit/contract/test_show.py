"""`problem show` says what was learnt, how it is known, and what the reference refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuassay.cli.main import main
from tests.unit.contract.problems import rotary

pytestmark = pytest.mark.usefixtures("judge_here")


def test_facts_have_evidence_and_breaks_an_outcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rotary(tmp_path)
    assert main(["problem", "show", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    facts = {fact["fact"]: fact for fact in document["facts"]}
    rows = facts["all slices of position_ids along batch are equal"]
    assert rows["source"] == "the problem's own inputs"
    assert rows["count"] == 4  # three small looks and a larger one
    assert rows["broken"] == "the reference accepts it"
    assert "gate, gate_sigmoid come from one another or from one tensor" in facts
    assert facts["batch may have sizes that no workload lists"]["source"] == "trials"
    assert document["tried"]


def test_the_terminal_lists_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rotary(tmp_path)
    assert main(["problem", "show", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "Found by experiment" in text
    assert "every row of position_ids counts up from 0" in text
    assert "Tried on the reference:" in text


def test_workloads_list_what_the_axes_do_not_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    definition = tmp_path / "definition.json"
    rotary(tmp_path)
    told = json.loads(definition.read_text(encoding="utf-8"))
    told["axes"]["width"] = {"type": "const", "value": 7}
    told["axes"]["twice"] = {"type": "expr", "expression": "width * 2"}
    definition.write_text(json.dumps(told), encoding="utf-8")
    assert main(["problem", "show", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    axes, workloads = text.split("Workloads (")
    assert "= 7" in axes
    assert "width * 2" in axes
    listed = workloads.split("\n\n")[0]
    assert "batch=" in listed
    assert "width" not in listed
    assert "twice" not in listed
