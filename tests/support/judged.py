"""Judged candidates with sources on disk, for tests of the forms of reports."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from cuassay.model.candidate import Candidate, SourceFile
from cuassay.model.outcome import CheckReport, Failed, FindingClass
from cuassay.model.verdict import Verdict
from cuassay.report.judged import Judged
from tests.support import samples

ROOT = Path("/repository")
SOURCE = "import torch\n\n\ndef run(x):\n    return helper(x)\n\n\ndef helper(x):\n    raise x\n"


def judged_kernel(verdict: Verdict | None = None, **changes: object) -> Judged:
    candidate = Candidate(
        name="kernel",
        sources=(SourceFile(path="kernel.py", text=SOURCE),),
        entry_file="kernel.py",
        entry_function="run",
        origin=ROOT / "kernels" / "kernel.py",
    )
    made = Judged(path="kernels/kernel.py", root=ROOT, verdict=verdict, candidate=candidate)
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def of_findings(number: int) -> Verdict:
    """Return a verdict with as many findings of their own: conditions, which no cause joins."""
    finding = dataclasses.replace(samples.hot_rows(), finding_class=FindingClass.UNSAFE)
    found = tuple(
        dataclasses.replace(
            finding,
            id=f"F{n}",
            title=f"t{n}",
            where=dataclasses.replace(finding.where, output=f"y{n}"),
        )
        for n in range(number)
    )
    check = CheckReport(code="NUM002", title="t", outcome=Failed(findings=found))
    return dataclasses.replace(samples.rejected(), checks=(check,))
