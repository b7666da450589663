"""Verdicts as a real trial gives them: the known story, its twin, an undecided one, a nasty one."""

from __future__ import annotations

import dataclasses
import math

from cuassay.model.case import Case, Fill
from cuassay.model.diagnosis import Basis, Cause, Diagnosis, SourceLine
from cuassay.model.events import (
    CaseFinished,
    CheckFinished,
    CheckStarted,
    EngineFinished,
    EngineStarted,
    Event,
    FindingReported,
    Progress,
)
from cuassay.model.outcome import (
    CheckReport,
    ErrorMap,
    Failed,
    Finding,
    FindingClass,
    Growth,
    GrowthPoint,
    Inconclusive,
    Passed,
    Severity,
    Skipped,
    Where,
)
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.verdict import (
    AxisCoverage,
    BenchmarkRule,
    Decision,
    Lane,
    Power,
    Profile,
    Span,
    Speed,
    Timing,
    Verdict,
)
from cuassay.model.walls import STANDS, WALLS

RUN = "20261121-091500-042a1f2"
SEED = 8240011437251936143
DIGEST = "9f2c41d07a8be6530f11c2ab94d7e3f86051b2c7d94e0fa3b6a8127cd05e9f41"
NASTY = (
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07click\x1b]8;;\x07 "
    "[bold red]markup[/bold red] "
    "</script><script>alert(1)</script> <img src=x onerror=alert(2)> ::error file=a.py::owned\n"
    "::add-mask::secret\r\x1b[2J\x9b31m\u202etxt.exe\u202c \x00\x07\x08 \ud800 ]]> & \"quoted\" 'x'"
)
ENVIRONMENT = {
    "cuassay": "0.1.0",
    "python": "3.12.3",
    "torch": "2.11.0+cu130",
    "triton": "3.6.0",
    "device": "NVIDIA H200",
    "driver": "580.95.05",
    "sandbox": "user and network namespace",
}


def _hot_case() -> Case:
    return Case(
        label="one hot row",
        axes={"tokens": 258, "hidden": 16, "vocab": 2},
        fills={
            "input_ids": Fill(kind="single_hot"),
            "grad_output": Fill(kind="ones", parameters={"sign": 1}),
        },
        scalars={"eps": 1e-6},
        seed=SEED,
    )


def scenario() -> Scenario:
    """Return the smallest scenario that reproduces the hot-row finding."""
    return Scenario(
        label="call once on one hot row",
        cases=(_hot_case(),),
        steps=(
            Allocate(slot="a", case=0),
            Call(slot="a", result="first"),
            ReadResult(result="first"),
        ),
    )


def error_map() -> ErrorMap:
    """Return a map of 24 x 32 tiles whose first rows are hot and one cell is not finite."""
    rows, columns = 24, 32
    cells = [
        (61.0 / (1 + row) ** 2 + 0.4 + 0.3 * math.sin(1.7 * row + 0.9 * column))
        * (1.0 + 0.2 * math.cos(column))
        for row in range(rows)
        for column in range(columns)
    ]
    cells[rows * columns - 5] = math.inf
    return ErrorMap(
        rows=rows,
        columns=columns,
        cells=tuple(cells),
        tile=(683, 128),
        output="grad_embed_weight",
    )


def growth() -> Growth:
    """Return growth of a bf16 accumulator beside a flat trusted line."""
    return Growth(
        axis="tokens",
        points=tuple(
            GrowthPoint(length=length, error=error, trusted=trusted)
            for length, error, trusted in (
                (1024, 0.0031, 0.00163),
                (4096, 0.0118, 0.00161),
                (16384, 0.0467, 0.00164),
                (32768, 0.0892, 0.00162),
            )
        ),
        exponent=0.97,
        target=1_000_000,
        projected=0.61,
        trusted_exponent=0.01,
        output="grad_embed_weight",
    )


def hot_rows() -> Finding:
    """Return the finding of the known story: hot rows accumulated in bf16."""
    return Finding(
        code="NUM002",
        title="Low-precision accumulation",
        message=(
            "Hot rows of grad_embed_weight lose 9 % of their gradient: the running sum is kept "
            "in bfloat16, and the error grows with the number of tokens."
        ),
        classes=("N1", "N3"),
        finding_class=FindingClass.WRONG,
        severity=Severity.CRITICAL,
        measured=0.0892,
        allowed=0.00486,
        statistic="energy of the error, relative to the truth",
        where=Where(
            output="grad_embed_weight",
            group="rows with >= 256 hits",
            index=(3, 17),
            got="256.0",
            expected="258.0",
            axes={"tokens": 258, "hidden": 16, "vocab": 2},
            fills={"input_ids": "single_hot", "grad_output": "ones"},
        ),
        seed=SEED,
        reproduce=f"cuassay replay {RUN}/F1",
        scenario=scenario(),
        growth=growth(),
        error_map=error_map(),
        counterexample=(
            "tokens, hidden, vocab = 258, 16, 2\n"
            "grad_output   = ones(tokens, hidden, bfloat16)\n"
            "input_ids     = zeros(tokens, int64)          # one hot row\n"
            "hidden_states = ones(tokens, hidden, float32)\n"
            "rstd          = ones(tokens, float32)\n"
            "norm_weight   = ones(hidden, bfloat16)        # any value fails"
        ),
        details=(
            ("rows with 1 hit", "0.0016 (trusted 0.0016)"),
            ("rows with 16 to 255 hits", "0.0113 (trusted 0.0016)"),
            ("rows with >= 256 hits", "0.0892 (trusted 0.0016)"),
        ),
        id="F1",
    )


def held_output() -> Finding:
    """Return an unsafe finding: the next call overwrites the returned tensor."""
    return Finding(
        code="API002",
        title="Output contract",
        message=(
            "grad_norm_weight changes when the kernel is called again: a static buffer is returned."
        ),
        classes=("S1",),
        finding_class=FindingClass.UNSAFE,
        severity=Severity.HIGH,
        where=Where(output="grad_norm_weight", group="held across a second call"),
        seed=SEED,
        reproduce=f"cuassay replay {RUN}/F2",
        condition="read the outputs before the next call",
        scenario=scenario(),
        id="F2",
    )


def empty_batch() -> Finding:
    """Return advice: something outside the declared contract."""
    return Finding(
        code="SHP001",
        title="Shapes beside the tested ones",
        message="tokens = 0 raises RuntimeError; the problem declares tokens >= 1.",
        classes=("O7",),
        finding_class=FindingClass.ADVICE,
        severity=Severity.LOW,
        where=Where(axes={"tokens": 0, "hidden": 256}),
        evidence="RuntimeError: invalid argument: grid is empty\n  at kernel.py:41",
        reproduce=f"cuassay replay {RUN}/F3",
        id="F3",
    )


def _passed(code: str, title: str, share: float | None, seconds: float) -> CheckReport:
    return CheckReport(
        code=code, title=title, outcome=Passed(share=share), duration_s=seconds, scenarios=4
    )


def _checks() -> tuple[CheckReport, ...]:
    return (
        _passed("API001", "Inputs stay as they were", None, 0.31),
        CheckReport(
            code="API002",
            title="Output contract",
            outcome=Failed(findings=(held_output(),)),
            duration_s=0.42,
            scenarios=3,
        ),
        _passed("API003", "Every input reaches the output", 0.21, 0.9),
        _passed("NUM001", "Numerical parity", 0.73, 2.4),
        CheckReport(
            code="NUM002",
            title="Low-precision accumulation",
            outcome=Failed(findings=(hot_rows(),)),
            duration_s=3.1,
            scenarios=9,
        ),
        CheckReport(
            code="SHP001",
            title="Shapes beside the tested ones",
            outcome=Passed(share=0.4),
            advice=(empty_batch(),),
            duration_s=1.2,
            scenarios=11,
        ),
        CheckReport(
            code="DET001",
            title="Run-to-run spread",
            outcome=Inconclusive(reason="the reference itself differs between two runs"),
            duration_s=0.6,
            scenarios=8,
        ),
        CheckReport(
            code="MEM001",
            title="Every output element is written",
            outcome=Skipped(reason="needs a CUDA device for poisoned allocations"),
        ),
    )


def rejected() -> Verdict:
    """Return the known story: the benchmark accepts, cuassay rejects."""
    return Verdict(
        decision=Decision.REJECTED,
        reason=hot_rows().message,
        problem="embedding_gradient_rmsnorm_backward",
        candidate="kernels/bf16_accumulate.py",
        profile=Profile.STANDARD,
        device="cuda",
        digest=DIGEST,
        truth="float64",
        truth_reason="every operation of the reference was lifted",
        precision_grade="bfloat16 inside",
        checks=_checks(),
        conditions=("read the outputs before the next call",),
        benchmark_rule=BenchmarkRule(
            accepted=True,
            matched_ratio=0.999986,
            required_ratio=0.99,
            atol=0.01,
            rtol=0.05,
            workload="uniform ids, 32 768 tokens",
        ),
        power=Power(
            mutants=18,
            killed=17,
            survivors=("eps replaced by 2 eps in rms",),
            benchmark_killed=9,
        ),
        timing=Timing(total_s=9.7, build_s=1.4, truth_s=0.8, candidate_s=3.9, compare_s=0.6),
        environment=ENVIRONMENT,
        seed=SEED,
        run=RUN,
        notes=("axis 'tokens' has no declared bounds: 1 or more is assumed",),
        coverage=_coverage(),
        workers=9,
        timeline=(
            Span(lane=Lane.TRUTH, what="tokens=64 hidden=16", begin_s=1.2, end_s=1.5),
            Span(
                lane=Lane.CANDIDATE,
                what="plain",
                begin_s=1.5,
                end_s=2.0,
                parts_s={"values": 0.1, "start": 0.3},
            ),
            Span(lane=Lane.JUDGE, what="NUM001", begin_s=1.2, end_s=2.1),
        ),
        walls={wall.name: STANDS for wall in WALLS},
    )


def told() -> Verdict:
    """Return the known story with its cause, as experiments with the kernel found it."""
    return dataclasses.replace(rejected(), diagnoses=(diagnosis(),))


def diagnosis() -> Diagnosis:
    """Return the cause of the known story: a bfloat16 accumulator, with its line."""
    story = hot_rows()
    return Diagnosis(
        cause=Cause.LOW_ACCUMULATION,
        words=story.message,
        remedy="keep running sums in float32 and cast once at the end",
        basis=Basis.MACHINE,
        line=SourceLine(
            file="kernel.py",
            line=9,
            text="total.index_add_(0, input_ids, grad_output)",
            what="a sum in bfloat16",
        ),
        example=story.counterexample,
        findings=(story.id or "F1",),
    )


def _coverage() -> tuple[AxisCoverage, ...]:
    tokens = (1, 2, 3, 7, 31, 32, 33, 64, 127, 128, 129, 258, 512, 1024, 2048, 4095, 4096)
    return (
        AxisCoverage(axis="tokens", values=tokens, checks={"NUM001": 6, "SHP001": 11}),
        AxisCoverage(axis="hidden", values=(16, 4096), checks={"NUM001": 2, "SHP001": 2}),
    )


def accepted() -> Verdict:
    """Return the verdict on the correct twin."""
    checks = (
        *(
            _passed(code, title, share, seconds)
            for code, title, share, seconds in (
                ("API001", "Inputs stay as they were", None, 0.3),
                ("API002", "Output contract", None, 0.4),
                ("API003", "Every input reaches the output", 0.2, 0.9),
                ("STATE001", "No state between calls", None, 1.1),
                ("NUM001", "Numerical parity", 0.73, 2.4),
                ("NUM002", "Low-precision accumulation", 0.34, 3.1),
                ("SHP001", "Shapes beside the tested ones", 0.4, 1.2),
            )
        ),
        _checks()[-1],
    )
    return dataclasses.replace(
        rejected(),
        decision=Decision.ACCEPTED,
        reason="every check passed; the closest used 73 % of its error budget (NUM001).",
        candidate="kernels/float32_accumulate.py",
        precision_grade="float32",
        checks=checks,
        conditions=("contiguous inputs", "one stream, not captured"),
        power=Power(mutants=18, killed=18, benchmark_killed=9),
        speed=Speed(
            axes={"tokens": 8192, "hidden": 4096},
            candidate_us=41.2,
            eager_us=380.0,
            compiled_us=40.1,
            floor_us=33.5,
        ),
    )


def inconclusive() -> Verdict:
    """Return a verdict that a missing tool left open."""
    return dataclasses.replace(
        accepted(),
        decision=Decision.INCONCLUSIVE,
        reason="MEM001 did not run and the profile 'deep' needs it.",
        profile=Profile.DEEP,
        truth="float32",
        truth_reason="aten.view.dtype at reference.py:12 reinterprets bits and cannot be lifted",
        benchmark_rule=None,
        power=None,
        speed=None,
    )


def nasty() -> Verdict:
    """Return a rejected verdict in which every free text is hostile."""
    finding = dataclasses.replace(
        hot_rows(),
        title=NASTY,
        message=NASTY,
        statistic=NASTY,
        where=Where(
            output=NASTY,
            group=NASTY,
            index=(0,),
            got=NASTY,
            expected=NASTY,
            axes={NASTY: 1},
            fills={NASTY: NASTY},
        ),
        condition=NASTY,
        counterexample=NASTY,
        details=((NASTY, NASTY),),
        evidence=NASTY,
        measured=math.inf,
        allowed=math.nan,
        growth=dataclasses.replace(growth(), axis=NASTY, output=NASTY),
        error_map=dataclasses.replace(error_map(), output=NASTY),
    )
    check = CheckReport(code="NUM002", title=NASTY, outcome=Failed(findings=(finding,)))
    skipped = CheckReport(code="MEM001", title=NASTY, outcome=Skipped(reason=NASTY))
    rule = rejected().benchmark_rule
    assert rule is not None
    return dataclasses.replace(
        rejected(),
        reason=NASTY,
        problem=NASTY,
        candidate=NASTY,
        truth_reason=NASTY,
        conditions=(NASTY,),
        checks=(check, skipped),
        benchmark_rule=dataclasses.replace(rule, workload=NASTY, note=NASTY, worst_output=NASTY),
        power=Power(mutants=2, killed=1, survivors=(NASTY,)),
        environment={NASTY: NASTY},
        notes=(NASTY,),
        coverage=(AxisCoverage(axis=NASTY, values=(1,), checks={NASTY: 1}),),
    )


def events(verdict: Verdict) -> tuple[Event, ...]:
    """Return the events that lead to `verdict`."""
    stream: list[Event] = [
        EngineStarted(
            run=verdict.run,
            problem=verdict.problem,
            candidate=verdict.candidate,
            profile=verdict.profile.value,
            device=verdict.device,
            digest=verdict.digest,
            checks=tuple(check.code for check in verdict.checks),
            seed=verdict.seed,
        ),
        Progress(text="building the candidate"),
    ]
    for check in verdict.checks:
        stream.append(CheckStarted(code=check.code, title=check.title))
        stream.append(CaseFinished(code=check.code, label="first case", duration_s=0.1))
        if isinstance(check.outcome, Failed):
            stream += [FindingReported(finding=finding) for finding in check.outcome.findings]
        stream.append(CheckFinished(report=check))
    return (*stream, EngineFinished(verdict=verdict))
