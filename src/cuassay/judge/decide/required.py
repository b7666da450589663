"""What a verdict has to rest on: the least of every acceptance, and what `--require` names.

No verdict rests on a check that judged nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from cuassay.checks.registry import DECIDED_BY, LEAST
from cuassay.judge.decide.gross import PLAIN
from cuassay.model.conditions import UNDECIDED
from cuassay.model.outcome import CheckReport, Errored, Failed, Inconclusive, Passed, Skipped
from cuassay.model.verdict import Decision


def decide_required(
    decision: Decision,
    reason: str,
    reports: Iterable[CheckReport],
    *,
    require: Sequence[str],
    stated: Sequence[str] = (),
) -> tuple[Decision, str]:
    """Return the decision with the required conditions that nothing decided, or that do not hold.

    `stated` are conditions that no check's finding leads to, those of the scope say. An acceptance
    becomes INCONCLUSIVE where a required condition is among them, or where no check that could
    decide it judged anything.
    """
    if decision is not Decision.ACCEPTED:
        return decision, reason
    by_code = {report.code: report for report in reports}
    for name in require:
        for condition in stated:
            if condition.split(":", 1)[0] == name:
                return Decision.INCONCLUSIVE, f"--require {name} is not met: {condition}"
        asked = [by_code[code] for code in DECIDED_BY.get(name, ()) if code in by_code]
        if asked and not any(map(_decided, asked)):
            first = asked[0]
            match first.outcome:
                case Skipped(reason=told) | Inconclusive(reason=told) | Errored(reason=told):
                    why = told
                case Passed() | Failed():
                    why = "no scenario was judged"
            return Decision.INCONCLUSIVE, f"--require {name}: {first.code} decided nothing: {why}"
    return decision, reason


def undecided_least(reports: Iterable[CheckReport], *, short: Collection[str]) -> str:
    """Return the condition that names checks of the least of an acceptance that could not tell.

    It is empty where there are none. Those that had no time, `short`, are another condition's.
    """
    least = {code for codes in LEAST.values() for code in codes}.difference(short)
    told = [
        f"{report.code} could not tell: {report.outcome.reason}"
        for report in reports
        if report.code in least and isinstance(report.outcome, Inconclusive)
    ]
    return f"{UNDECIDED}: {'; '.join(told)}" if told else ""


def decide_least(
    decision: Decision,
    reason: str,
    reports: Iterable[CheckReport],
    *,
    short: Collection[str],
    advice: str,
) -> tuple[Decision, str]:
    """Return the decision, INCONCLUSIVE where time ended before the least of an acceptance.

    `short` are the codes of checks that had no time, or not for all that they look at; `advice`
    says how a trial gets more. What does not apply to a problem, or was not chosen, is not missing.
    Where no numbers were judged for want of time, the decision is so already: one reason names all.
    """
    decided = {report.code for report in reports if _decided(report)}
    missing = [
        f"{what} ({', '.join(code for code in codes if code in short)})"
        for what, codes in LEAST.items()
        if decided.isdisjoint(codes) and not set(short).isdisjoint(codes)
    ]
    undecided = decision is Decision.INCONCLUSIVE and PLAIN in set(short) - decided
    if not missing or not (decision is Decision.ACCEPTED or undecided):
        return decision, reason
    told = ", ".join(missing)
    return Decision.INCONCLUSIVE, f"too little was judged for an acceptance, not {told}: {advice}"


def _decided(report: CheckReport) -> bool:
    passed = isinstance(report.outcome, Passed) and report.clean > 0
    return passed or isinstance(report.outcome, Failed)
