"""The calls of a layout scenario that are not plain: in words, and where they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cuassay.model.scenario import Call, ReadResult, Scenario
from cuassay.model.steps import Arrange, CallInto, Layout

_WORDS = {
    Layout.CONTIGUOUS: "contiguous",
    Layout.TRANSPOSED: "transposed",
    Layout.STEPPED: "sliced with step 2",
    Layout.EXPANDED: "expanded (stride 0)",
    Layout.OFFSET: "offset by one element",
    Layout.PACKED: "packed in a wider buffer",
    Layout.CHANNELS_LAST: "channels-last",
    Layout.AT_END: "at the end of its allocation",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutCall:
    """One call on inputs laid out anew: in words, and the steps that call and read."""

    words: str
    apart: str  # what must not share memory; "" of a layout
    arranged: int
    call: int
    read: int


def reads_by_result(scenario: Scenario) -> dict[str, int]:
    """Return the step that reads each result."""
    steps = enumerate(scenario.steps)
    return {step.result: index for index, step in steps if isinstance(step, ReadResult)}


def tried_calls(scenario: Scenario) -> Iterator[LayoutCall]:
    """Yield every call that is not plain, in order."""
    reads = reads_by_result(scenario)
    for index, step in enumerate(scenario.steps):
        before = scenario.steps[index - 1] if index else None
        if isinstance(step, CallInto):
            parts = (f"{out} in the memory of {given}" for out, given in step.into.items())
            words, arranged = " and ".join(parts), index
            apart = "outputs must not share memory with inputs"
        elif isinstance(step, Call) and isinstance(before, Arrange):
            parts = (f"one tensor as {of} and {given}" for given, of in before.same.items())
            words, arranged = " and ".join(parts) or layout_words(before.layouts), index - 1
            apart = "inputs must not share memory with one another" if before.same else ""
        else:
            continue
        yield LayoutCall(
            words=words,
            apart=apart,
            arranged=arranged,
            call=index,
            read=reads[step.result],
        )


def layout_words(layouts: Mapping[str, Layout]) -> str:
    """Return `x transposed` or `q, k, v packed in a wider buffer`."""
    names: dict[Layout, list[str]] = {}
    for name, layout in layouts.items():
        names.setdefault(layout, []).append(name)
    return " and ".join(f"{', '.join(who)} {_WORDS[how]}" for how, who in names.items())
