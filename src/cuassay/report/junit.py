"""Verdicts as JUnit XML: a suite a candidate, a test case a check, and one for the verdict.

A check that found something wrong is a failure, one that could not tell is an error, never a
skip; the case called `verdict` fails or errors where the kernel may not ship, so that a suite
of passes and skips cannot stand for an acceptance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import assert_never
from xml.etree import ElementTree

from cuassay.model.diagnosis import Diagnosis
from cuassay.model.outcome import (
    CheckReport,
    Errored,
    Failed,
    Finding,
    Inconclusive,
    Passed,
    Skipped,
)
from cuassay.model.verdict import Decision, Verdict
from cuassay.report import words
from cuassay.report.clean import clean, one_line
from cuassay.report.judged import Judged

_EVIDENCE_BYTES = 4096
_FINDINGS = 4


def junit(trials: Sequence[Judged]) -> str:
    """Return the XML document of some trials."""
    root = ElementTree.Element("testsuites", name="cuassay")
    for judged in trials:
        verdict = judged.verdict
        suite = ElementTree.Element("testsuite", name=judged.name)
        if verdict is not None:
            facts = [
                ("cuassay.verdict", verdict.decision.value),
                ("cuassay.problem", one_line(verdict.problem)),
                ("cuassay.digest", one_line(verdict.digest, limit=80)),
                ("cuassay.profile", verdict.profile.value),
                (
                    "cuassay.device",
                    one_line(verdict.environment.get("device", "") or verdict.device),
                ),
                ("cuassay.power", words.power_line(verdict.power)),
                ("cuassay.seed", str(verdict.seed)),
                ("cuassay.run", one_line(verdict.run, limit=80)),
            ]
            _properties(suite, facts)
            for check in verdict.checks:
                if words.applies(check):
                    suite.append(_case(check, judged, verdict))
        suite.append(_last(judged))
        cases = suite.findall("testcase")
        suite.set("tests", str(len(cases)))
        kinds = (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
        for name, tag in kinds:
            suite.set(name, str(sum(case.find(tag) is not None for case in cases)))
        total_s = verdict.timing.total_s if verdict is not None else 0.0
        suite.set("time", f"{total_s if math.isfinite(total_s) else 0.0:.3f}")
        root.append(suite)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _properties(parent: ElementTree.Element, facts: Sequence[tuple[str, str]]) -> None:
    box = ElementTree.SubElement(parent, "properties")
    for name, value in facts:
        ElementTree.SubElement(box, "property", name=name, value=value)


def _case(check: CheckReport, judged: Judged, verdict: Verdict) -> ElementTree.Element:
    name = f"{one_line(check.code, limit=40)} {one_line(check.title, limit=120)}".strip()
    case = ElementTree.Element("testcase", classname=judged.name, name=name)
    case.set("time", f"{check.duration_s if math.isfinite(check.duration_s) else 0.0:.3f}")
    share = words.outcome_share(check)
    if share is not None:
        _properties(case, [("cuassay.budget_share", words.number(share))])
    match check.outcome:
        case Passed():
            pass
        case Failed() if words.only_condition(check):
            out = ElementTree.SubElement(case, "system-out")
            out.text = f"holds only under a condition: {words.outcome_reason(check)}"
        case Failed():
            # Each finding of a check with its smallest input, its command and its evidence.
            found = [f for f in words.identified(verdict) if f.code == check.code]
            _end(
                case,
                "failure",
                words.outcome_reason(check),
                "\n\n".join(story(finding) for finding in found),
            )
        case Inconclusive():
            _end(case, "error", f"inconclusive: {words.outcome_reason(check)}", "")
        case Skipped():
            ElementTree.SubElement(case, "skipped", message=words.outcome_reason(check))
        case Errored(traceback=trace):
            _end(case, "error", f"fault of cuassay: {words.outcome_reason(check)}", clean(trace))
        case _:
            assert_never(check.outcome)
    return case


def _last(judged: Judged) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=judged.name, name="verdict", time="0.000")
    verdict = judged.verdict
    if verdict is None:
        _end(case, "error", f"no verdict: {judged.reason}", "")
    elif verdict.decision is Decision.REJECTED:
        _end(case, "failure", f"REJECTED: {judged.reason}", "")
    elif verdict.decision is Decision.INCONCLUSIVE:
        _end(case, "error", f"INCONCLUSIVE: {judged.reason}", "")
    elif verdict.conditions:
        out = ElementTree.SubElement(case, "system-out")
        out.text = "\n".join(("ACCEPTED as long as:", *map(one_line, verdict.conditions)))
    return case


def _end(case: ElementTree.Element, tag: str, message: str, text: str) -> None:
    end = ElementTree.SubElement(case, tag, message=message, type=f"cuassay.{tag}")
    end.text = text or None


def cause_story(made: Diagnosis, verdict: Verdict) -> str:
    """Return one cause as plain text: its line, the smallest input, what to do, its findings."""
    rows = [one_line(made.words)]
    if made.line is not None:
        rows.append(f"line: {words.source_text(made.line)}")
    if made.example:
        rows.append("smallest failing input:")
        rows += [f"  {row}" for row in words.block(made.example, lines=40)]
    rows.append(f"to do: {made.remedy}")
    found = [f for f in words.identified(verdict) if f.id in made.findings]
    for finding in found[:_FINDINGS]:
        rows.append(f"{one_line(finding.id, limit=20)} {one_line(finding.message)}")
    if len(found) > _FINDINGS:
        rows.append(f"and {len(found) - _FINDINGS} more findings of the same cause")
    if found and found[0].reproduce:
        rows.append(f"reproduce: {one_line(found[0].reproduce)}")
    return "\n".join(rows)


def story(finding: Finding) -> str:
    """Return one finding as plain text, cleaned."""
    share = f" ({words.times(finding.share)})" if finding.share is not None else ""
    rows = [f"{one_line(finding.id, limit=20)} {one_line(finding.message)}{share}"]
    if where := words.place(finding):
        rows.append(f"where: {where}; {words.values(finding)}".rstrip("; "))
    if finding.where.axes:
        rows.append(f"input: {words.sizes(finding.where.axes)}")
    if finding.counterexample:
        rows.append("smallest failing input:")
        rows += [f"  {row}" for row in words.block(finding.counterexample, lines=40)]
    if finding.evidence:
        rows.append("what the candidate printed or raised:")
        text = clean(finding.evidence, cap_bytes=_EVIDENCE_BYTES)
        rows += [f"  {row}" for row in text.splitlines()]
    if finding.reproduce:
        rows.append(f"reproduce: {one_line(finding.reproduce)}")
    return "\n".join(rows)
