"""What the PTX machine saw, as text and as HTML: marks, heat, hostile names."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.cli.verbs.run import _code, _sizes
from cuassay.errors import UsageError
from cuassay.judge.diagnose.source_views import source_views
from cuassay.model.candidate import Candidate, SourceFile
from cuassay.model.machine import (
    LaunchEvidence,
    LineTrace,
    MachineEvidence,
    MachineFault,
    OrderDependence,
    Touch,
)
from cuassay.report.html.source import heat_step, source_section
from cuassay.report.html.verdict import render
from cuassay.report.terminal.machine import lines
from tests.support import samples

SOURCE = "// k\n__global__ void k() {\n    s += x[i];  // <b>\n    y[0] = s;\n}\n"
TOUCHES = (
    Touch(what="write", ptx_line=30, file="k.cu", line=4, block=(0, 0, 0), thread=(1, 0, 0)),
    Touch(what="read", ptx_line=20, file="k.cu", line=3, block=(0, 0, 0), thread=(0, 0, 0)),
)
FAULTS = (
    MachineFault(kind="race", severity="wrong", text="a race\x1b[31m", touches=TOUCHES),
    MachineFault(
        kind="precision",
        severity="wrong",
        text="accumulates in bf16",
        touches=TOUCHES[1:],
        measures={"lost_bits": 8.1},
        count=7,
    ),
)
LAUNCH = LaunchEvidence(
    kernel="k",
    grid=(2, 1, 1),
    block=(32, 1, 1),
    target="sm_80",
    faults=FAULTS,
    lane_instructions=1234,
    lines=(
        LineTrace(file="k.cu", line=3, instructions=5, executed=4, error=0.01),
        LineTrace(file="k.cu", line=4, instructions=2, executed=0),
    ),
)
EVIDENCE = MachineEvidence(
    launches=(LAUNCH,),
    order=(OrderDependence(allocation="y", first="forward", second="reverse", nbytes=4),),
)
CANDIDATE = Candidate(
    name="k",
    sources=(SourceFile(path="src/k.cu", text=SOURCE),),
    entry_file="src/k.cu",
    entry_function="k",
)


def test_the_terminal_names_both_accesses_and_marks_the_lines() -> None:
    text = "\n".join(lines(EVIDENCE, {"src/k.cu": SOURCE}, trace=True))
    assert "launch 1: k, 2 x 1 x 1 blocks of 32 x 1 x 1 threads, sm_80" in text
    assert "wrong: race: a race" in text
    assert "\x1b" not in text
    assert "write at k.cu:4, PTX line 30, thread [1, 0, 0] of block [0, 0, 0]" in text
    assert "lost_bits 8.1" in text
    assert "4/5  1.0e-02 !    3      s += x[i];" in text
    assert "differs in 4 bytes between the schedules forward and reverse" in text
    assert text.endswith("not covered: weak memory, ptxas, code paths of other architectures")


def test_a_clean_launch_says_how_far_that_reaches() -> None:
    clean = dataclasses.replace(LAUNCH, faults=(), oblivious=True)
    text = "\n".join(lines(MachineEvidence(launches=(clean,)), {}, trace=False))
    assert "holds for all data at this launch" in text
    stopped = dataclasses.replace(clean, inconclusive="line 9: wgmma")
    text = "\n".join(lines(MachineEvidence(launches=(stopped,)), {}, trace=False))
    assert "not executed to its end: line 9: wgmma" in text
    assert "holds for" not in text


def test_exit_codes() -> None:
    clean = dataclasses.replace(LAUNCH, faults=())
    assert _code(EVIDENCE) == 1
    assert _code(MachineEvidence(launches=(clean,))) == 0
    stopped = dataclasses.replace(clean, inconclusive="why")
    assert _code(MachineEvidence(launches=(stopped,))) == 3


def test_sizes_of_the_command_line() -> None:
    assert _sizes("rows=4, hidden=300") == {"rows": 4, "hidden": 300}
    assert _sizes("") == {}
    for text in ("rows", "rows=x", "rows=0", "1=2"):
        with pytest.raises(UsageError, match="rows=64,hidden=1024"):
            _sizes(text)


def test_the_page_shows_the_source_with_heat_and_findings() -> None:
    views = source_views(CANDIDATE, [EVIDENCE])
    assert views[0].executed == (3,)
    assert views[0].heat == {"3": 0.01}
    marks = [(line, kind, code) for line, kind, code, _ in views[0].marks]
    assert marks == [(3, "advice", "PREC101"), (3, "wrong", "RACE101"), (4, "wrong", "RACE101")]
    verdict = dataclasses.replace(samples.rejected(), sources=views)
    section = source_section(verdict)
    assert f'<td class="h{heat_step(0.01)}">    s += x[i];  // &lt;b&gt;</td>' in section
    assert section.count("RACE101") == 2
    assert section in render(verdict)
    assert source_section(samples.rejected()) == ""
    assert source_views(CANDIDATE, []) == ()


@pytest.mark.parametrize(
    ("error", "step"), [(0.0, 0), (2.0**-25, 0), (2.0**-23, 1), (2.0**-9, 5), (1.0, 8), (1e9, 8)]
)
def test_heat_deepens_with_the_error(error: float, step: int) -> None:
    assert heat_step(error) == step
    assert heat_step(float("inf")) == 8


def test_what_a_kernel_printed_is_cut_short_without_trace() -> None:
    launch = dataclasses.replace(LAUNCH, printed=tuple(f"line {n}\x1b[2J" for n in range(20)))
    few = list(lines(MachineEvidence(launches=(launch,)), {}, trace=False))
    every = list(lines(MachineEvidence(launches=(launch,)), {}, trace=True))
    assert sum("printed: line" in one for one in few) == 8
    assert any("12 lines more (shown with --trace)" in one for one in few)
    assert "  printed: line 19" in every
