"""The form for agents: nothing to cheat by, and no pass where nothing was decided."""

from __future__ import annotations

import dataclasses
import json

from cuassay.model.outcome import CheckReport, Failed, Finding
from cuassay.model.verdict import Decision
from cuassay.report.agent import agent_document
from tests.support import samples


def test_the_agent_is_told_nothing_to_cheat_by() -> None:
    verdict = samples.rejected()
    text = json.dumps(agent_document(verdict))
    rule_, power = verdict.benchmark_rule, verdict.power
    assert rule_ is not None
    assert power is not None
    passing = next(c for c in verdict.checks if c.code == "NUM001")
    assert passing.outcome.share == 0.73  # type: ignore[union-attr]
    for secret in (
        str(verdict.seed),
        str(samples.hot_rows().allowed),
        str(samples.hot_rows().measured),
        power.survivors[0],
        rule_.workload,
        "4095",
        "0.73",
        "73 %",
        "DET001",  # what was not decided
        "1000000",
    ):
        assert secret not in text, secret
    for told in ("zeros(tokens, int64)", "keep running sums in float32", "cuassay replay"):
        assert told in text


def test_an_undecided_verdict_is_no_pass_for_an_agent() -> None:
    found = agent_document(samples.inconclusive())
    assert found["verdict"] == Decision.INCONCLUSIVE.value
    assert found["undecided"]
    bare: Finding = dataclasses.replace(samples.hot_rows(), counterexample="", growth=None)
    check = CheckReport(code="NUM002", title="t", outcome=Failed(findings=(bare,)))
    told = agent_document(dataclasses.replace(samples.rejected(), checks=(check,)))
    assert told["findings"][0]["input"].startswith("tokens=258")
