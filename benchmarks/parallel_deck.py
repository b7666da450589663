"""The references of ParallelKernelBench (even problems), each judged as a candidate of itself.

    python benchmarks/parallel_deck.py CHECKOUT [--ranks 2] [--only 2 4] [--share 0/2]

A problem is written for each: the deck's own inputs of every rank, and the reference as a function
of one rank. What is no tensor must be the same number on every rank; an output must be a tensor
with one shape on all ranks. What does not fit is a row with the reason. A row is written as soon as
it is known, to benchmarks/results/parallel-deck-<device>.json. Exit code 1 for a rejection.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from common import save  # noqa: E402
from tests.zoo.judging import Gate  # noqa: E402

from cuassay.errors import CuassayError  # noqa: E402
from cuassay.formats import load_problem  # noqa: E402
from cuassay.ranks.together import run_together  # noqa: E402

_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
_SHAPES = ((64, 64), (128, 128), (256, 256))  # tried in turn: some problems need longer axes
_NUMBERS = (bool, int, float, str, type(None))
_PROBLEM = """\
import sys
from typing import Annotated

import torch

sys.path.insert(0, {checkout!r})
sys.path.insert(0, {checkout!r} + "/utils")

from input_output_tensors import create_input_tensor

from cuassay import domains, problem, tensor
from cuassay.ranks.together import run_together


def inputs(axes, device):
    trial = int(torch.randint(0, 1 << 20, ()))

    def of(rank):
        return create_input_tensor(
            rank, {ranks}, {number}, {shape}, {dtype}, trial=trial, device=str(device)
        )

    parts = run_together(of, {ranks})
    named = {places}.items()
    return {{name: torch.stack([part[place] for part in parts]) for name, place in named}}


@problem(ranks=({ranks},), axes={{}}, workloads=[{{}}], generator=inputs, per_rank=True)
def reference({annotated}) -> {returned}:
    from importlib import util

    spec = util.spec_from_file_location("deck_reference", {file!r})
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.solution({arguments})
"""
_KERNEL = "{text}\n\n\ndef run({names}):\n    return solution({arguments})\n"


class NotExpressibleError(Exception):
    """A problem of the deck is none that cuassay can say."""


def main() -> int:
    """Judge the references and save what was said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--only", nargs="*", type=int, default=[])
    parser.add_argument("--share", default="0/1")
    asked = parser.parse_args()
    part, of = map(int, asked.share.split("/"))
    files = {int(f.name.split("_")[0]): f for f in (asked.checkout / "reference").glob("[0-9]*.py")}
    numbers = [n for n in sorted(files) if n % 2 == 0 and n in (asked.only or files)]
    rows: list[dict[str, Any]] = []
    with Gate(_DEVICE) as gate, tempfile.TemporaryDirectory() as folder:
        for number in numbers[part::of]:
            started = time.perf_counter()
            row: dict[str, Any] = {"problem": files[number].stem, "ranks": asked.ranks}
            try:
                place = Path(folder, str(number))
                _write(place, asked.checkout.resolve(), files[number], number, asked.ranks)
                problem = load_problem(str(place / "problem.py"))
                said = gate.judge(problem, place / "kernel.py")
                row |= {
                    "decision": said.verdict.decision.value,
                    "codes": list(said.codes),
                    "reason": said.verdict.reason[:300],
                }
            except NotExpressibleError as error:
                row |= {"decision": "not expressible", "reason": str(error)[:300]}
            except CuassayError as error:
                row |= {
                    "decision": "not judged",
                    "reason": f"{type(error).__name__}: {error}"[:300],
                }
            row["seconds"] = round(time.perf_counter() - started, 1)
            rows.append(row)
            print(f"{row['decision']:16s} {row['seconds']:6.1f} s  {row['problem']}  "
                  f"{row['reason'][:130]}", flush=True)  # fmt: skip
            save("parallel-deck", {"ranks": asked.ranks, "share": asked.share, "rows": rows})
    return int(any(row["decision"] == "REJECTED" for row in rows))


def _write(place: Path, checkout: Path, file: Path, number: int, ranks: int) -> None:
    """Write the problem and its candidate. Raises NotExpressibleError."""
    create = _function(checkout / "utils" / "input_output_tensors.py", "create_input_tensor")
    solution = _function(file, "solution")
    shape, given, found = _sampled(create, solution, number, ranks)
    names = [f"x{place}" for place in range(len(given[0]))]
    places, constants = {}, {}
    for place_of, name in enumerate(names):
        column = [one[place_of] for one in given]
        if isinstance(column[0], torch.Tensor):
            _same_shapes(column, f"argument {place_of}")
            places[name] = place_of
        elif isinstance(column[0], _NUMBERS) and all(one == column[0] for one in column):
            constants[name] = column[0]
        else:
            raise NotExpressibleError(f"argument {place_of} is a {type(column[0]).__name__}")
    outputs = [one if isinstance(one, tuple | list) else (one,) for one in found]
    for column in zip(*outputs, strict=True):
        if not isinstance(column[0], torch.Tensor):
            raise NotExpressibleError(f"an output is a {type(column[0]).__name__}")
        _same_shapes(column, "an output")
    returned = [_annotation(one, f"y{n}") for n, one in enumerate(outputs[0])]
    arguments = ", ".join(n if n in places else repr(constants[n]) for n in names)
    place.mkdir()
    Path(place, "problem.py").write_text(
        _PROBLEM.format(
            checkout=str(checkout),
            ranks=ranks,
            number=number,
            shape=shape,
            places=places,
            dtype="torch.float32",
            file=str(file.resolve()),
            arguments=arguments,
            annotated=", ".join(f"{n}: {_annotation(given[0][p], '')}" for n, p in places.items()),
            returned=returned[0] if len(returned) == 1 else f"tuple[{', '.join(returned)}]",
        )
    )
    text = file.read_text()
    Path(place, "kernel.py").write_text(
        _KERNEL.format(text=text, names=", ".join(places), arguments=arguments)
    )


def _sampled(
    create: Callable[..., Any], solution: Callable[..., Any], number: int, ranks: int
) -> tuple[tuple[int, int], list[tuple[Any, ...]], list[Any]]:
    """Return a shape, all ranks' arguments and what the reference returns on each."""
    why = ""
    for shape in _SHAPES:
        try:
            given: list[Any] = run_together(
                lambda rank, shape=shape: create(
                    rank, ranks, number, shape, torch.float32, device=_DEVICE
                ),
                ranks,
            )
            return shape, given, run_together(lambda rank, g=given: solution(*g[rank]), ranks)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
    raise NotExpressibleError(why)


def _same_shapes(column: Sequence[torch.Tensor], what: str) -> None:
    kinds = {(tuple(one.shape), one.dtype) for one in column}
    if len(kinds) > 1:
        raise NotExpressibleError(
            f"{what} differs in shape from rank to rank: {sorted(map(str, kinds))}"
        )


def _annotation(value: torch.Tensor, name: str) -> str:
    dims = ", ".join(["'ranks'", *map(str, value.shape)])
    named = f", name={name!r}" if name else ""
    domain = ", domain=domains.Opaque(why='the deck makes it')" if not (
        value.dtype.is_floating_point or name
    ) else ""  # fmt: skip
    kind = str(value.dtype).removeprefix("torch.")
    return f'Annotated[torch.Tensor, tensor("{kind}", {dims}{named}{domain})]'


def _function(file: Path, name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location(f"deck_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise NotExpressibleError(f"it does not load: {error}") from None
    found: Callable[..., Any] = getattr(module, name)
    return found


if __name__ == "__main__":
    sys.exit(main())
