"""What the cells say together: a decision, and the matrix told in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cuassay.model.verdict import Decision
from cuassay_loops.results import CellResult, Duplicates


def decide_matrix(
    cells: Sequence[CellResult], *, what: str = "gradients", probes: Sequence[Duplicates] = ()
) -> tuple[Decision, str]:
    """Return the decision and why. One cell whose gradient leaves the band rejects.

    `what` is compared: gradients, or an optimizer's updates. A probe of duplicates in which
    samples differ rejects as well.

    A cell from which nothing follows (out of memory, a trusted run that diverges) leaves the
    matrix INCONCLUSIVE unless another rejects.
    """
    failed = [cell for cell in cells if cell.failure]
    left = [cell for cell in cells if cell.gradient_left_band]
    undecided = [cell for cell in cells if cell.undecided]
    if left:
        return Decision.REJECTED, f"{_first(left, what)}; {story(cells, what=what)}"
    if failed:
        return Decision.REJECTED, f"the kernel failed in {_in(failed, cells)}: {failed[0].failure}"
    unlike = [probe for probe in probes if probe.left]
    if unlike:
        return Decision.REJECTED, _unlike(unlike[0])
    unprobed = [probe for probe in probes if probe.undecided]
    if unprobed and not undecided:
        why = f"nothing follows from a batch of duplicates: {unprobed[0].undecided}"
        return Decision.INCONCLUSIVE, why
    if undecided or not cells:
        why = undecided[0].undecided if undecided else "no cell was run"
        return Decision.INCONCLUSIVE, f"nothing follows from {_in(undecided, cells)}: {why}"
    return (
        Decision.ACCEPTED,
        f"no {what[:-1]} left the noise band in {len(cells)} runs of up to "
        f"{max(cell.steps for cell in cells)} steps",
    )


def story(cells: Sequence[CellResult], *, what: str = "gradients") -> str:
    """Return which runs show the fault: by the loss, by the gradients alone, not at all."""
    by_loss = _kinds(cells, lambda c: c.gradient_left_band and c.loss_left_band)
    by_gradient = _kinds(cells, lambda c: c.gradient_left_band and not c.loss_left_band)
    hidden = _kinds(cells, lambda c: not c.left and not c.undecided)
    parts = [
        f"{word}: {', '.join(kinds)}"
        for word, kinds in (
            ("the loss leaves with", by_loss),
            (f"only {what} show it with", by_gradient),
            ("hidden with", hidden),
        )
        if kinds
    ]
    return "; ".join(parts)


def _kinds(cells: Iterable[CellResult], holds: Callable[[CellResult], bool]) -> list[str]:
    """Return `data + optimizer` of the cells, with how many of its seeds."""
    total: dict[str, int] = {}
    met: dict[str, int] = {}
    for result in cells:
        name = f"{result.cell.data}+{result.cell.optimizer}"
        total[name] = total.get(name, 0) + 1
        met[name] = met.get(name, 0) + holds(result)
    return [
        name if met[name] == count else f"{name} ({met[name]} of {count})"
        for name, count in total.items()
        if met[name]
    ]


def _first(left: Sequence[CellResult], what: str) -> str:
    first = min(left, key=lambda result: result.step or 0)
    rows = ""
    if first.rows:
        shown = ", ".join(map(str, first.rows[:6]))
        rows = f" rows {shown}{' ...' if len(first.rows) > 6 else ''}"
    return (
        f"{what} leave the noise band in {len(left)} runs, first at step {first.step} with "
        f"{first.cell.data}+{first.cell.optimizer}: {first.parameter}{rows}, deviation "
        f"{first.deviation:.2g} where trusted from trusted is {first.noise:.2g}"
    )


def _unlike(probe: Duplicates) -> str:
    """Say how a batch of duplicates went wrong."""
    batch = f"a batch of {probe.samples} duplicates"
    if probe.failure:
        return f"the kernel failed on {batch}: {probe.failure}"
    if probe.wrong:
        return (
            f"in {batch} the gradients of {len(probe.wrong)} samples ({ranges(probe.wrong)}) "
            f"differ from their equals' by {probe.spread:.2g}, trusted ones by "
            f"{probe.noise_spread:.2g}"
        )
    return (
        f"in {batch} the gradient of {probe.parameter} is off that of the samples alone by "
        f"{probe.deviation:.2g}, a trusted one by {probe.noise:.2g}"
    )


def ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as ranges: 3, 5-7, at most four of them."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    told = [str(low) if low == high else f"{low}-{high}" for low, high in spans[:4]]
    return ", ".join(told + (["..."] if len(spans) > 4 else []))


def _in(some: Sequence[CellResult], cells: Sequence[CellResult]) -> str:
    return f"{len(some)} of {len(cells)} runs"
