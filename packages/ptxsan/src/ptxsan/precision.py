"""Which instruction lost the precision: findings from the float64 shadow of one launch.

Every float instruction has sums over its executions (`runtime.shadow`): squares of the results, of
their whole error and of the error made right there. sqrt(errors / squares) is an instruction's
relative error, weighted by size as an output's energy is. A launch whose outputs are accurate has
no finding, whatever happens inside; otherwise the instruction is named at which the error appears.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ptxsan import isa
from ptxsan.findings import Access, Kind, MachineFinding, Severity
from ptxsan.isa import Memory
from ptxsan.lines import own_line
from ptxsan.numerics.formats import BY_NAME
from ptxsan.origins import Origins
from ptxsan.program import Program
from ptxsan.runtime import shadow as slots
from ptxsan.syntax import Instruction, Vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What counts as lost, in unit roundoffs of the coarsest format that an output went through:
# OUTPUT_ROUNDOFFS anyway; JUMP_ROUNDOFFS where one instruction multiplies the error by JUMP or
# more; CHAIN_ROUNDOFFS where a sum is kept in f16 or bf16 (one rounding leaves 0.4 on average).
# Never below FLOOR, half the bits of float32, but for sums. Figures: docs/machine-numerics.md.
OUTPUT_ROUNDOFFS, JUMP_ROUNDOFFS, CHAIN_ROUNDOFFS = 8.0, 1.5, 1.2
JUMP, FLOOR = 64.0, 2.0**-12
_ROUNDOFFS = 1e-9  # of a sum of squares in float64
_MIN_RESULTS = 16  # fewer results are too few to speak of a size


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteNumbers:
    """What one float instruction did: for traces and heat maps.

    `error` is the relative error of its results, `made` the part made by this instruction; `born`
    counts non-finite results of finite operands whose exact value is finite, `reached` all that
    have a finite exact value. `largest` and `smallest` are magnitudes of finite nonzero results.
    `additions` are those into one accumulator, on average; None where this instruction never added
    to one that held zero: another one began the sum, and how many go into each is not known.
    `only` is the magnitude of all results; None where they have several, and of zeros.
    """

    site: int
    ptx_line: int
    opcode: str
    count: int
    error: float
    made: float
    born: int
    reached: int
    additions: float | None
    largest: float
    smallest: float
    width: float
    swallowed: bool
    only: float | None = None


def merged(tables: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the statistics of all workers in one table: sums and maxima."""
    result = tables[0].copy()
    for table in tables[1:]:
        result[:, : slots.LARGEST] += table[:, : slots.LARGEST]
        result[:, slots.LARGEST :] = np.maximum(
            result[:, slots.LARGEST :], table[:, slots.LARGEST :]
        )
    return result


def numbers(program: Program, stats: NDArray[np.float64]) -> tuple[SiteNumbers, ...]:
    """Return the numbers of every float instruction that ran; stats: float64[sites, 16]."""
    found = []
    for site, one in enumerate(program.body):
        row = [float(value) for value in stats[site]]
        if row[slots.COUNT] == 0:
            continue
        squares = row[slots.SQUARES]
        # The magnitude of all results of a site, if they have one and are no zeros
        largest, whole = row[slots.LARGEST], row[slots.COUNT] * row[slots.LARGEST] ** 2
        # Results that are not finite are counted, and add nothing: as zeros do.
        alike = whole > 0 and abs(squares - whole) <= _ROUNDOFFS * whole
        found.append(
            SiteNumbers(
                site=site,
                ptx_line=one.line,
                opcode=one.opcode,
                count=int(row[slots.COUNT]),
                error=_ratio(row[slots.ERRORS], squares),
                made=_ratio(row[slots.INTRODUCED], squares),
                born=int(row[slots.BORN]),
                reached=int(row[slots.BORN] + row[slots.CARRIED]),
                additions=row[slots.COUNT] / row[slots.STARTS] if row[slots.STARTS] else None,
                largest=row[slots.LARGEST],
                smallest=1.0 / row[slots.SMALLEST] if row[slots.SMALLEST] else 0.0,
                width=row[slots.WIDTH],
                swallowed=row[slots.SWALLOWED] != 0,
                only=largest if alike else None,
            )
        )
    return tuple(found)


def _ratio(part: float, whole: float) -> float:
    if part == 0:
        return 0.0
    return math.sqrt(part / whole) if whole > 0 else math.inf


def blame(program: Program, stats: NDArray[np.float64]) -> list[MachineFinding]:
    """Return the precision findings of one launch; stats: float64[sites, 16]."""
    known = {one.site: one for one in numbers(program, stats)}
    origins = Origins(program)
    outputs = [
        site
        for site in known
        if isa.row(one := program.body[site]).memory in (Memory.WRITE, Memory.UPDATE)
        and isa.names_space(one, "global")
    ]
    found: dict[int, MachineFinding] = {}
    for output in outputs:
        finding = _judge(program, origins, known, output)
        if finding is not None:
            found.setdefault(finding.ptx_line, finding)
    return list(found.values())


def _judge(
    program: Program, origins: Origins, known: dict[int, SiteNumbers], output: int
) -> MachineFinding | None:
    here = known[output]
    line = sorted(origins.ancestors(output) & known.keys())
    if here.reached:
        born = [site for site in line if known[site].born]
        if born:
            return _born(program, known, born[0], output)
        first = next(site for site in [*line, output] if known[site].reached)
        before = sorted(origins.ancestors(first) & known.keys())
        return _jump(program, origins, known, before, first)
    chains = [
        site
        for site in line
        if origins.is_accumulation(site)
        and known[site].error > CHAIN_ROUNDOFFS * _coarse(program.body[site])
    ]
    if chains and here.error > CHAIN_ROUNDOFFS * roundoff(program.body[output], origins):
        site = max(chains, key=lambda site: known[site].made)
        numbers_, one = known[site], program.body[site]
        kind = isa.result_type(one).removesuffix("x2")
        bits = math.log2(numbers_.error / BY_NAME[kind].unit_roundoff)
        over = f" over {numbers_.additions:,.0f} additions" if numbers_.additions else ""
        text = (
            f"{where(one)}: accumulates in {kind}, loses {bits:.1f} bits{over} "
            f"(relative error {numbers_.error:.2g})"
        )
        measures = {
            "lost_bits": bits,
            "error": numbers_.error,
            "output_error": known[output].error,
        }
        if numbers_.additions:
            measures["additions"] = numbers_.additions
        return _finding(one, text, measures, numbers_.count)
    if here.count < _MIN_RESULTS:
        return None
    coarsest = max((roundoff(program.body[site], origins) for site in line), default=0.0)
    if here.error > max(FLOOR, OUTPUT_ROUNDOFFS * coarsest):
        return _jump(program, origins, known, line, output)
    if here.error > max(FLOOR, JUMP_ROUNDOFFS * coarsest):
        finding = _jump(program, origins, known, line, output)
        return finding if finding.measures["gain"] >= JUMP else None
    return None


def roundoff(one: Instruction, origins: Origins) -> float:
    """Return the unit roundoff of an instruction's results or, for mma, of its factors."""
    kinds = [part.removesuffix("x2") for part in one.parts if part.removesuffix("x2") in BY_NAME]
    if isa.multiplies_matrices(one):
        return max((BY_NAME[kind].unit_roundoff for kind in kinds), default=0.0)
    stored = isa.value_stored(one)
    if stored is None:
        kind = isa.result_type(one).removesuffix("x2")
    else:
        value = stored.items[0] if isinstance(stored, Vector) else stored
        kind = origins.of_operand(value).removesuffix("x2")
    return BY_NAME[kind].unit_roundoff if kind in BY_NAME else 0.0


def _coarse(one: Instruction) -> float:
    """Return the roundoff of a low-precision accumulation; infinity for f32 and f64 ones."""
    kind = isa.result_type(one).removesuffix("x2")
    if kind not in ("f16", "bf16"):
        return math.inf
    return BY_NAME[kind].unit_roundoff


def _born(
    program: Program, known: dict[int, SiteNumbers], site: int, output: int
) -> MachineFinding:
    numbers_, one = known[site], program.body[site]
    text = (
        f"{where(one)}: {numbers_.born or numbers_.reached} results are infinite or NaN although "
        f"their exact value is finite; {known[output].reached} of them reach the output at "
        f"{where(program.body[output])}"
    )
    measures = {"born": float(numbers_.born), "stored": float(known[output].reached)}
    return _finding(one, text, measures, numbers_.count)


def _jump(
    program: Program, origins: Origins, known: dict[int, SiteNumbers], line: list[int], output: int
) -> MachineFinding:
    """Blame the instruction whose error most exceeds that of its operands."""

    def gain(site: int) -> float:
        before = [known[one].error for one in origins.before(site) if one in known and one != site]
        return known[site].error / max([2.0**-24, *before])

    candidates = [one for one in line if one != output and math.isfinite(known[one].error)]
    site = max(candidates, key=gain, default=output)
    numbers_, one = known[site], program.body[site]
    how = "loses" if numbers_.made > numbers_.error / 4 else "amplifies (cancellation) to"
    after = f"the output at {where(program.body[output])} is off by {known[output].error:.2g}"
    if known[output].reached:
        after = f"{where(program.body[output])} then gives NaN or infinity for a finite value"
    text = (
        f"{where(one)}: {how} a relative error of {numbers_.error:.2g} ({gain(site):,.0f} times "
        f"that of its operands); {after}"
    )
    measures = {
        "error": numbers_.error,
        "made": numbers_.made,
        "gain": gain(site),
        "output_error": known[output].error,
    }
    return _finding(one, text, measures, numbers_.count)


def where(one: Instruction) -> str:
    """Return "line 42 `red.global.add.noftz.bf16`": the source line where it is known."""
    source = own_line(one.source)
    if source is not None:
        return f"line {source.line} `{one.opcode}`"
    return f"PTX line {one.line} `{one.opcode}`"


def _finding(
    one: Instruction,
    text: str,
    measures: dict[str, float],
    count: int,
    severity: Severity = Severity.WRONG,
) -> MachineFinding:
    source = own_line(one.source)
    access = Access(
        what=one.opcode,
        ptx_line=one.line,
        source_file=source.file if source else None,
        source_line=source.line if source else None,
        block=(0, 0, 0),
        thread=(0, 0, 0),
    )
    return MachineFinding(
        kind=Kind.PRECISION,
        severity=severity,
        text=text,
        accesses=(access,),
        count=count,
        measures=measures,
    )
