"""False alarms on held-out honest kernels: fresh seeds, forms and fills.

    python benchmarks/heldout.py [--seed N] [--only TEXT] [--out FILE]

Two parts: the operators and honest forms of `calibrate.py` on new seeds, shapes and fills, and
the operators of `calibration_forms.py`, written after the rule was fixed. Many fills repeat
values (constants, 0 and 1, integers, equal rows, blocks, one-hot): errors are then not
independent. Results go to benchmarks/results/calibration-heldout-cpu.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from calibrate import DTYPES, environment, run_variant, spec_of, wide
from calibration_arithmetic import HONEST
from calibration_forms import HELD
from calibration_operators import FILLS, OPERATORS
from torch import Tensor

from cuassay.oracle.compare.outputs import measure
from cuassay.oracle.truth.make import Truth, hit_counts, make_truth

SHAPES = ((40, 300), (17, 1030), (130, 64))
Fill = Callable[[int, int], Tensor]


def _blocks(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, -(-columns // 20)).repeat_interleave(20, 1)[:, :columns]


def _one_hot(rows: int, columns: int) -> Tensor:
    return torch.zeros(rows, columns).scatter_(1, torch.randint(columns, (rows, 1)), 1.0)


REPEATED: dict[str, Fill] = {
    "ones": lambda r, c: torch.ones(r, c),
    "constant": lambda r, c: torch.full((r, c), float(torch.randn(()))),
    "0 and 1": lambda r, c: torch.randint(0, 2, (r, c)).float(),
    "integers": lambda r, c: torch.randint(-3, 4, (r, c)).float(),
    "equal rows": lambda r, c: torch.randn(1, c).repeat(r, 1),
    "equal columns": lambda r, c: torch.randn(r, 1).repeat(1, c),
    "blocks": _blocks,
    "one-hot": _one_hot,
    "few values": lambda r, c: torch.randn(9)[torch.randint(0, 9, (r, c))],
    "zeros": lambda r, c: torch.zeros(r, c),
}
PLAIN: dict[str, Fill] = {
    "normal": torch.randn,
    "small": lambda r, c: 1e-3 * torch.randn(r, c),
    "sigma 30": lambda r, c: 30.0 * torch.randn(r, c),
    "offset": lambda r, c: 3.0 + torch.randn(r, c),
    "same sign": torch.rand,
    "near constant": lambda r, c: 1.0 + 1e-3 * torch.randn(r, c),
}

Case = tuple[str, str, Truth, dict[str, Callable[[], Tensor]]]


def _cases(seed: int, part: str) -> Iterator[Case]:
    """Yield (group, place, truth, honest kernels) of every case of one part."""
    for index, shape in enumerate(SHAPES):
        for number, (name, fill) in enumerate((PLAIN | REPEATED | FILLS).items()):
            torch.manual_seed(seed + 1000 * index + number)
            for dtype in DTYPES:
                place = f"{name} / {dtype} / {shape}"
                if part == "forms":
                    yield from _forms(shape, fill, dtype, place, seed)
                else:
                    yield from _operators(shape, fill, dtype, place, seed)


def _cast(form: Callable[..., Tensor], inputs: tuple[Tensor, ...], dtype: torch.dtype) -> Tensor:
    return form(*inputs).to(dtype)


def _truth(fn: Callable[..., Tensor], inputs: tuple[Tensor, ...], hits: bool, seed: int) -> Truth:
    result = fn(*inputs)
    counts = {"y": hit_counts(inputs[1], result.shape[0])} if hits else None
    return make_truth(fn, inputs, [spec_of(result)], seed=seed, index_hits=counts)


def _forms(
    shape: tuple[int, int], fill: Fill, dtype: torch.dtype, place: str, seed: int
) -> Iterator[Case]:
    for held in HELD:
        inputs = wide(held.inputs(*shape, fill), dtype)
        truth = _truth(held.reference, inputs, held.indexed, seed)
        narrow = wide(inputs, torch.float32)
        kernels: dict[str, Callable[[], Tensor]] = {
            name: partial(_cast, form, narrow, dtype) for name, form in held.forms.items()
        }
        kernels["reference"] = partial(held.reference, *inputs)
        yield "new forms", f"{held.name} / {place}", truth, kernels


def _operators(
    shape: tuple[int, int], fill: Fill, dtype: torch.dtype, place: str, seed: int
) -> Iterator[Case]:
    shape = (shape[0], shape[1] - shape[1] % 4)  # group norm has four groups
    for operator in OPERATORS:
        inputs = wide(operator.inputs(shape, fill), dtype)
        truth = _truth(operator.reference, inputs, operator.indexed, seed)
        kernels: dict[str, Callable[[], Tensor]] = {
            name: partial(run_variant, operator, how, inputs, dtype)
            for name, (piece, how) in HONEST.items()
            if not piece or piece in operator.uses
        }
        yield "calibrated operators", f"{operator.name} / {place}", truth, kernels


def study(seed: int, part: str) -> dict[str, object]:
    """Return counts of honest comparisons and every false alarm."""
    counts: Counter[str] = Counter()
    alarms: list[dict[str, object]] = []
    largest: dict[str, tuple[float, str]] = {}
    for group, place, truth, kernels in _cases(seed, part):
        aside = bool(truth.ill_conditioned)
        counts[f"{group}: cases"] += 1
        counts[f"{group}: ill-conditioned cases"] += aside
        for name, kernel in kernels.items():
            found = measure(kernel(), truth.outputs[0])
            kind = "ill-conditioned comparisons" if aside else "comparisons"
            counts[f"{group}: {kind}"] += 1
            for statistic in found.statistics:
                if not aside and statistic.value > largest.get(statistic.name, (0.0, ""))[0]:
                    largest[statistic.name] = (statistic.value, f"{place} / {name}")
            if found.passed:
                continue
            counts[f"{group}: alarms, {kind}"] += 1
            worst = found.worst
            alarms.append(
                {
                    "where": f"{place} / {name}",
                    "ill_conditioned": aside,
                    "share": found.share,
                    "statistic": worst.name if worst else found.mismatch,
                    "group": worst.group if worst else "",
                    "got": repr(found.got),
                    "expected": repr(found.expected),
                }
            )
    return {"counts": dict(sorted(counts.items())), "alarms": alarms, "largest_honest": largest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=90_001)
    parser.add_argument("--only", default="", choices=("", "forms", "operators"))
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    start = time.process_time()
    document: dict[str, object] = {"environment": environment("cpu"), "seed": options.seed}
    for part in ("forms", "operators"):
        if options.only in ("", part):
            document[part] = study(options.seed, part)
    document["cpu_seconds"] = round(time.process_time() - start, 1)
    out = options.out or Path(__file__).parent / "results" / "calibration-heldout-cpu.json"
    out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
