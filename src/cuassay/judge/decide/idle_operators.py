"""Operations of torch in an extension's C++ that decide nothing.

As `exchanges` does with expressions of Python: in calls on cases that were judged, zeros or an
operand take the place of one operation's result at a time, and the judge compares.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cuassay.checks.kernels.facts import cleaned_text
from cuassay.judge.decide.exchanges import judged_cases, tried_exchanges, until
from cuassay.model.candidate import Candidate
from cuassay.model.reached import Instead, Operator, OperatorExchange
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.scope import Unreached
from cuassay.sandbox.host.waits import run_now

if TYPE_CHECKING:
    from cuassay.checks.base import Trial
    from cuassay.judge.checking import Checked
    from cuassay.judge.decide.exchanges import RunExchanged

_LISTED = 4  # calls whose operations are noted
_AT_ONCE = 32
_LEAST_CASES = 3
_TEXT = 70
_FACTOR = re.compile(r"\b([A-Za-z_]\w*)\b(?=\s*\*)|(?<=[*/])\s*([A-Za-z_]\w*)\b(?!\s*[.(])")
_NUMBER = r"\b(?:double|float|auto|bool|int|long|size_t|u?int\d+_t|at::Scalar|c10::Scalar)\s+"


def idle_operators(
    trial: Trial, candidate: Candidate, run: RunExchanged, checked: Checked
) -> tuple[Unreached, ...]:
    """Return lines of an extension's C++ with an operation of torch that no judged call needs.

    Nothing where no library of the candidate is followed, as on a GPU.
    """
    cases = judged_cases(trial, checked)[0][: trial.effort.exchange_cases]
    known: dict[str, Operator] = {}
    end, happened = time.monotonic() + trial.effort.exchange_s, dict[OperatorExchange, int]()
    run = until(end, run)
    for case in cases[:_LISTED]:
        steps = (
            Allocate(slot="a", case=0),
            Call(slot="a", result="r", exchange=OperatorExchange()),
            ReadResult(result="r"),
        )
        noted = run_now(run(Scenario(label="operations of its C++", cases=(case,), steps=steps)))
        if noted is not None:
            known |= {one.site: one for one in noted.reached.operators}
        if not known:
            return ()
    left = [
        OperatorExchange(site=one.site, instead=instead)
        for one in known.values()
        for instead in one.instead
    ]
    for case in cases:
        kept: list[OperatorExchange] = []
        for first in range(0, len(left), _AT_ONCE):
            part = left[first : first + _AT_ONCE]
            for one, right in tried_exchanges(trial, run, (case,), part, end):
                happened[one] = happened.get(one, 0) + (right is not None)
                if right is not False:
                    kept.append(one)
        left = kept
        if not left:
            break
    least = min(_LEAST_CASES, len(cases))
    idle = [(known[one.site], one.instead) for one in left if happened.get(one, 0) >= least]
    return tuple(_named(candidate, idle))


def _named(candidate: Candidate, idle: Sequence[tuple[Operator, Instead]]) -> Iterator[Unreached]:
    """Return the lines of operations, each once; of those without a line the first of the file.

    After them those that define a number which nothing but an idle product or quotient uses.
    """
    texts = {source.path: source.text.splitlines() for source in candidate.sources}
    lines: dict[tuple[str, int], str] = {}
    factors: dict[str, set[str]] = {}
    for one, instead in sorted(idle, key=lambda pair: (pair[0].file, pair[0].line)):
        place = (candidate.entry_file, 1)
        lead = f"an operation of its C++: {one.site.split()[0]}"
        for path, text in texts.items():
            same = PurePosixPath(path).name == PurePosixPath(one.file).name
            if same and 0 < one.line <= len(text):
                place, lead = (path, one.line), text[one.line - 1].strip()
                by_number = instead is Instead.FIRST and Instead.SECOND not in one.instead
                if by_number and one.site.startswith(("mul", "div")):
                    names = {a or b for a, b in _FACTOR.findall(lead)}
                    factors.setdefault(path, set()).update(names)
        lines.setdefault(place, lead)
    for path, names in factors.items():
        at = {line for file, line in lines if file == path}
        for number, row in _definitions(texts[path], names, at):
            yield _unreached(path, number, f"serves nothing else: {row.strip()}")
    for (path, number), lead in lines.items():
        yield _unreached(path, number, f"made no difference: {lead}")


def _definitions(
    texts: Sequence[str], names: set[str], idle: set[int]
) -> Iterator[tuple[int, str]]:
    """Return the lines that give numbers their values of which only idle lines make use."""
    for name in sorted(names):
        uses = {
            number
            for number, text in enumerate(texts, 1)
            if re.search(rf"\b{name}\b", text) and not text.lstrip().startswith(("//", "# "))
        }
        gives = {n for n in uses if re.search(rf"{_NUMBER}{name}\s*=[^=]", texts[n - 1])}
        if len(gives) == 1 and uses - gives <= idle:
            yield from ((n, texts[n - 1]) for n in gives - idle)


def _unreached(file: str, line: int, text: str) -> Unreached:
    return Unreached(file=file, line=line, last=line, test=cleaned_text(text, _TEXT))
