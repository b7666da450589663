"""What an agent may ask for, apart from the protocol that carries it.

An agent may name its kernel freely: candidates are hostile by assumption. It may not name the
problem freely, for a problem's reference is code that the judge runs: only catalogue names and
the files below the folders that the user listed are taken, and only runs of this home.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuassay.errors import UsageError
from cuassay.model.events import Event
from cuassay.verifier import Verifier

_FINDING = re.compile(r"(last|[0-9a-f-]{4,40})(/F\d{1,6})?")
_NAME = re.compile(r"[A-Za-z0-9_@-]{1,120}")
_COUNTS = ("problem", "profile", "mutants", "equivalent", "killed_ours", "killed_theirs")
_SURVIVORS = 40


class Tools:
    """What the server does, apart from the protocol. Every method returns plain JSON data.

    Raises UsageError and CannotJudgeError with the message for the agent.
    """

    def __init__(
        self,
        verifier: Verifier,
        *,
        problems: Sequence[Path] = (),
        rule: Callable[[str], str],
        default_profile: str = "quick",
    ) -> None:
        self._verifier, self._rule = verifier, rule
        self._problems = tuple(folder.resolve() for folder in problems)
        self._profile = default_profile

    def check(
        self, kernel: str, problem: str, *, budget_s: float, watch: Callable[[Event], None]
    ) -> dict[str, Any]:
        """Judge a kernel and return the document of `--format agent`."""
        result = self._verifier.verify(
            kernel, self.allowed(problem), budget_s=budget_s, profile=self._profile, watch=watch
        )
        return result.agent()

    def explain(self, code: str) -> str:
        """Return the page of a check."""
        return self._rule(code)

    def power(self, problem: str) -> dict[str, Any]:
        """Return what the inputs of a problem can tell apart.

        Our own survivors are counted, not named: a kernel could be made of one.
        """
        from cuassay.engine import run
        from cuassay.model.jobs import PowerJob

        job = PowerJob(problem=self.allowed(problem))
        found = run.document(job, lambda text: None)
        return power_told(found)

    def replay(self, finding: str) -> dict[str, Any]:
        """Run a recorded finding of this home again and return the agent's document."""
        from cuassay.api import verdict_of
        from cuassay.engine import run
        from cuassay.report.agent import agent_document

        if not _FINDING.fullmatch(finding):
            raise UsageError(f"'{finding}' is no finding: expected RUN/F1, or last/F1")
        return agent_document(verdict_of(run.replay(finding)))

    def explain_finding(self, finding: str) -> dict[str, Any]:
        """Return what a kept run knows of one finding: its cause, line, input, and the check."""
        from cuassay.report.agent import finding_document
        from cuassay.store.runs import open_run

        if not (found := _FINDING.fullmatch(finding)) or not found[2]:
            raise UsageError(f"'{finding}' is no finding: expected RUN/F1, or last/F1")
        run = open_run(found[1])
        verdict = run.verdict()
        if verdict is None:
            raise UsageError(f"run {run.id} ended without a verdict; call `check` again")
        told = finding_document(verdict, found[2].removeprefix("/"))
        return told | {"check": self._rule(told["finding"]["code"])}

    def allowed(self, problem: str) -> str:
        """Return a problem that the agent may name. Raises UsageError for any other."""
        file, colon, function = problem.rpartition(":")
        path = Path(file if colon and file.endswith(".py") else problem)
        for folder in self._problems:
            place = (folder / path).resolve()
            if place.is_relative_to(folder) and place.exists() and place != folder:
                return f"{place}:{function}" if colon and file.endswith(".py") else str(place)
        if _NAME.fullmatch(problem) and not path.suffix and not Path(problem).exists():
            return problem  # a name of the catalogue; an unknown one is told with the list
        listed = ", ".join(map(str, self._problems)) or "none are listed (--problems DIR)"
        raise UsageError(
            f"problem '{problem}' is not allowed here: a reference is code that runs outside the "
            f"sandbox; give a catalogue name, or a file in the user's folders: {listed}"
        )


def power_told(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sums of a power document, and what the benchmark's own rule lets through.

    What *our* inputs cannot tell apart is left out: a kernel could be made of it.
    """
    from cuassay.report.clean import one_line

    told = {name: found.get(name) for name in _COUNTS}
    missed = [one_line(one["words"], limit=200) for one in found.get("survivors_theirs") or ()]
    return told | {"benchmark_accepts": missed[:_SURVIVORS], "benchmark_accepts_all": len(missed)}
