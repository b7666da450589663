"""STATE001: answers that belong to earlier calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.numeric.common import message, where, worst_statistic
from cuassay.checks.state.answers import (
    Read,
    is_right_for,
    reads_of,
    same_bits,
    truth_moved,
    wrong_outputs,
)
from cuassay.checks.state.call_scenarios import CHANGES, state_scenarios
from cuassay.model.outcome import Finding, Where
from cuassay.model.scenario import Scenario


class State001(Check):
    """No answer belongs to an earlier call

    What it does
        Calls the kernel several times in one fresh process while the world changes as it does
        in training and serving: inputs refilled in place, one tensor or scalar alone changed
        in place (an optimizer step on a weight), a single element changed, tensors freed,
        their memory poisoned and handed out again to other values, several shapes in turn.

    Why it matters
        Caches keyed by address, object identity or shape, packed weights that are not packed
        again, graphs replayed over freed memory and buffers kept per shape gave 24 of 63
        faults in an audit of real kernels. One call at a time, each of them is right.

    How it decides
        Every answer must be right for the values of its own call. A later answer that is
        wrong while the first is right is a finding; the first wrong one of the process is
        blamed, and the message says what had changed and whether an earlier answer came
        back. A first call that is wrong where a later one on the same values is right is a
        finding too.

    Can it be wrong?
        A change that does not move truth decides nothing, since the old answer is then right.
        A kernel that is wrong from its first call on is left to NUM001. Freed memory is
        poisoned before it is used again, so a stale read cannot look right by luck. Single
        elements are changed in tensors of at most 4096 elements.

    Example
        A cache keyed by `x.data_ptr()`: "returned the answer of call 1 after every input took
        other values in place".

    Options
        --profile quick uses fewer processes; the others try shapes in both orders, and change
        tensors of a listed size beyond their first 8192 elements.
    """

    code = "STATE001"
    title = "No answer belongs to an earlier call"
    classes = ("S1", "S2", "S3", "S4", "S6", "S8")
    group = "host"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield the scenarios, each in a fresh process."""
        yield from state_scenarios(trial)

    def judge(self, trial: Trial, scenario: Scenario, run: Run) -> Iterable[Finding]:
        """Blame the first answer that is not the one to its own call."""
        reads = reads_of(scenario, run)
        wrong = [bool(wrong_outputs(trial, read, run)) for read in reads]
        if not any(wrong):
            return
        if wrong[0]:  # wrong from the first call on: the numbers' fault, unless it recovers
            text = _first_call(reads, wrong)
            if text:
                yield self._finding(trial, scenario, run, read=reads[0], text=text)
            return
        position = wrong.index(True)
        text = _stale(trial, run, reads, position=position) or "is wrong"
        text = f"{text} {_after(scenario, reads, position)}"
        yield self._finding(trial, scenario, run, read=reads[position], text=text)

    def _finding(
        self, trial: Trial, scenario: Scenario, run: Run, *, read: Read, text: str
    ) -> Finding:
        failed = wrong_outputs(trial, read, run)
        worst = failed[0]
        statistic = worst_statistic(worst)
        place = where(worst, read.case, statistic) if not worst.mismatch else Where()
        outputs = ", ".join(comparison.output for comparison in failed)
        return self.finding(
            f"call {read.call} {text} ({outputs})",
            scenario=scenario,
            measured=statistic.value if statistic else None,
            allowed=statistic.limit if statistic else None,
            statistic="against truth for the values of its own call",
            where=place,
            details=(("against its own truth", message(worst, statistic)),),
        )


def _first_call(reads: Sequence[Read], wrong: Sequence[bool]) -> str:
    """Return what to say if only the first call on some values is wrong."""
    for later, is_wrong in zip(reads[1:], wrong[1:], strict=True):
        if later.case == reads[0].case and not is_wrong:
            return f"is wrong, call {later.call} on the same values is right: state of a first call"
    return ""


def _stale(trial: Trial, run: Run, reads: Sequence[Read], *, position: int) -> str:
    """Return `returned the answer of call 1` if an earlier answer came back, or nothing."""
    read = reads[position]
    for earlier in reversed(reads[:position]):
        if earlier.case == read.case:
            continue
        if same_bits(run, earlier.items, read.items) and truth_moved(
            trial, earlier.case, read.case
        ):
            return f"returned the answer of call {earlier.call}"
        if dict(earlier.case.axes) == dict(read.case.axes) and is_right_for(
            trial, earlier.case, read=read, run=run
        ):
            return f"returned an answer for the values of call {earlier.call}"
    return ""


def _after(scenario: Scenario, reads: Sequence[Read], position: int) -> str:
    """Return what had changed since the call before, in words."""
    from cuassay.checks.interface.inputs_used import change_in_words

    before, now = reads[position - 1].case, reads[position].case
    if dict(before.axes) != dict(now.axes):
        return f"after a call at another shape ({CHANGES[scenario.label]})"
    if before.seed != now.seed:
        what = "every input took other values"
    else:
        what = change_in_words(before, now) or "nothing changed"
    return f"after {what} ({CHANGES[scenario.label]})"
