"""`cuassay check --tactics`: every tactic of a kernel is judged, and an allow-list is written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from cuassay.cli.drive import EXIT_CODES, INTERRUPTED, emit_json, waiting
from cuassay.cli.options import Output
from cuassay.cli.sinks import say
from cuassay.errors import UsageError
from cuassay.inputs.seeds import new_root
from cuassay.model.candidate import TACTIC
from cuassay.model.events import EngineFinished, EngineStopped
from cuassay.model.jobs import TacticsJob, TrialJob
from cuassay.model.verdict import Decision, Verdict

SCHEMA = "cuassay/tactics/1"
_ASKED = 64  # sizes at which a kernel is asked whether a tactic is valid there
_STYLES = {Decision.ACCEPTED: "green", Decision.REJECTED: "red", Decision.INCONCLUSIVE: "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """One tactic: its trial's verdict, or why there is none."""

    tactic: str
    candidate: str
    verdict: Verdict | None = None
    why: str = ""


def judge_tactics(job: TrialJob, output: Output, file: Path) -> int:
    """Judge each tactic of the job's candidate, write the allow-list; return the exit code.

    All trials share one judge and one secret seed, drawn when the tactics are known: their inputs
    are the same. 1 where a tactic is rejected, 3 where none is but one is undecided. Raises
    UsageError where there are no tactics or `file` cannot be written, and CannotJudgeError.
    """
    from cuassay.engine import run

    if output.form not in ("terminal", "json") or len(output.targets) > 1:
        raise UsageError("--tactics prints text, or its document with --json; leave --format out")
    asked = TacticsJob(
        problem=job.problem,
        candidate=job.candidate,
        device=job.device,
        strict=job.strict,
        no_sandbox=job.no_sandbox,
        arch=job.arch,
    )
    with waiting("asks the kernel for its tactics", quiet=output.quiet) as told:
        listed = run.document(asked, told)
    names = list(dict.fromkeys(name for call in listed["calls"] for name in call["names"]))
    base = job.candidate if "::" in job.candidate else f"{job.candidate}::"
    seed = job.seed if job.seed is not None else new_root()
    judged: list[_Judged] = []
    code = 0
    try:
        with run.one_judge():
            for number, name in enumerate(names, 1):
                one = replace(job, candidate=f"{base}{TACTIC}{name}", seed=seed, isolated=True)
                words = f"judges tactic {number} of {len(names)}"
                with waiting(words, quiet=output.quiet):
                    judged.append(_judge(one, name))
                if output.form == "terminal" and not output.quiet:
                    _show(judged[-1])
    except KeyboardInterrupt:
        code = INTERRUPTED
        say(f"cuassay: interrupted after {len(judged)} of {len(names)} tactics")
    calls = listed["calls"]
    if not listed["static"] and judged and not code:
        # Sizes that trials tried, those of the most trials first.
        verdicts = [one.verdict for one in judged if one.verdict is not None]
        count = Counter(
            tuple(sorted(tried.sizes.items())) for one in verdicts for tried in one.tried_sizes
        )
        sizes = [dict(key) for key, _ in count.most_common(_ASKED)]
        with waiting("asks where each tactic is valid", quiet=output.quiet) as told:
            calls = run.document(replace(asked, sizes=tuple(sizes)), told)["calls"]
    document = _document(job, listed, judged, calls)
    made = file.with_name(f".{file.name}.new")
    try:
        made.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
        made.replace(file)
    except OSError as error:
        raise UsageError(
            f"--tactics {file} cannot be written: {error.strerror or error}; name another file"
        ) from None
    decisions = [entry["verdict"] for entry in document["tactics"]]
    if output.json:
        emit_json(document)
    else:
        allowed = len(document["allowed"])
        click.echo(f"{allowed} of {len(decisions)} tactics may be used: {file}")
    if code:
        return code
    return next(
        (
            EXIT_CODES[decision]
            for decision in (Decision.REJECTED, Decision.INCONCLUSIVE)
            if decision.value in decisions
        ),
        0,
    )


def _judge(job: TrialJob, tactic: str) -> _Judged:
    from cuassay.engine import run

    judged = _Judged(
        tactic=tactic, candidate=job.candidate, why="the trial ended without a verdict"
    )
    for event in run.check(job):  # read to its end: a judge that is left before is not kept
        match event:
            case EngineFinished(verdict=verdict):
                judged = replace(judged, verdict=verdict)
            case EngineStopped(exit_code=2, message=message):
                raise UsageError(message)
            case EngineStopped(message=message):
                judged = replace(judged, why=message)
            case _:
                pass
    return judged


def _show(one: _Judged) -> None:
    from cuassay.report.clean import one_line

    decision = one.verdict.decision if one.verdict is not None else Decision.INCONCLUSIVE
    word = click.style(f"{decision.value:<12}", fg=_STYLES[decision])
    click.echo(f"{word}  {one_line(one.tactic)}")
    verdict = one.verdict
    if verdict is None or not verdict.passed:
        reason = verdict.reason if verdict is not None else one.why
        click.echo(f"  {one_line(reason, limit=300)}")
        if verdict is not None and verdict.run:
            click.echo(f"  cuassay report {verdict.run}")


def _document(
    job: TrialJob,
    listed: Mapping[str, Any],
    judged: Sequence[_Judged],
    calls: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the allow-list. A tactic that was valid at no size tried is not allowed."""
    entries = []
    for one in judged:
        verdict = one.verdict
        tried = [dict(tried.sizes) for tried in verdict.tried_sizes] if verdict is not None else []
        shapes = tried
        if not listed["static"]:
            valid = [dict(call["sizes"]) for call in calls if one.tactic in call["names"]]
            shapes = [sizes for sizes in tried if sizes in valid]
        decision = verdict.decision if verdict is not None else Decision.INCONCLUSIVE
        reason = verdict.reason if verdict is not None else one.why
        if decision is Decision.ACCEPTED and not shapes and tried:
            decision = Decision.INCONCLUSIVE
            reason = "the tactic was valid at none of the sizes tried, so the default was judged"
        entries.append(
            {
                "tactic": one.tactic,
                "verdict": decision.value,
                "reason": reason,
                "shapes": shapes,
                "conditions": list(verdict.conditions) if verdict is not None else [],
                "candidate": one.candidate,
                "digest": verdict.digest if verdict is not None else "",
                "run": verdict.run if verdict is not None else "",
            }
        )
    first = next((one.verdict for one in judged if one.verdict is not None), None)
    allowed = Decision.ACCEPTED.value
    return {
        "schema": SCHEMA,
        "kernel": job.candidate,
        "problem": job.problem,
        "kind": listed["kind"],
        "profile": job.profile.value,
        "device": first.device if first is not None else job.device or "",
        "environment": dict(first.environment) if first is not None else {},
        "allowed": [entry["tactic"] for entry in entries if entry["verdict"] == allowed],
        "tactics": entries,
    }
