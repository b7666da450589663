"""The references of ParallelKernelBench (even problems), each judged as a candidate of itself.

    python benchmarks/parallel_deck.py CHECKOUT [--ranks 2] [--only 2 4] [--share 0/2]

A problem is written for each: the deck's own inputs of every rank, and the reference as a function
of one rank. Lists, layers and sparse tensors are made again of their tensors, and process groups of
their members. Tensors whose size differs from rank to rank are filled up to one size, with the
sizes beside them. What does not fit is a row with the reason. A row is written as soon as
it is known, to benchmarks/results/parallel-deck-<device>.json. Exit code 1 for a rejection.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from common import save  # noqa: E402
from tests.zoo.judging import Gate  # noqa: E402

from cuassay.formats import load_problem  # noqa: E402
from cuassay.ranks.together import run_together  # noqa: E402

_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
_SHAPES = ((64, 64), (128, 128), (256, 256))  # tried in turn: some problems need longer axes
_NUMBERS = (bool, int, float, str, type(None))
_TRIALS = 2  # whose sizes are looked at where ranks have tensors of different sizes
_REBUILT = """\
import torch as _torch
import torch.distributed as _dist

_GROUPS = {}


def _linear(weight, bias):
    made = _torch.nn.Linear(1, 1, bias=bias is not None)
    made.weight = _torch.nn.Parameter(weight)
    if bias is not None:
        made.bias = _torch.nn.Parameter(bias)
    return made


def _sparse(indices, values, size):
    return _torch.sparse_coo_tensor(indices, values, size).coalesce()


def _part(tensor, sizes):
    return tensor[tuple(slice(size) for size in sizes.tolist())]


def _group(members):
    # Each rank makes the groups of all, in one order.
    mine = None
    for some in members:
        whole = len(some) == _dist.get_world_size()
        made = _dist.group.WORLD if whole else _dist.new_group(some)
        mine = made if _dist.get_rank() in some else mine
    return mine


def _leaves(value):
    if isinstance(value, _torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for one in value for leaf in _leaves(one)]
    return [] if value is None else [_torch.tensor(value)]


def _as(value, shapes):
    made = []
    leaves = _leaves(value)
    like = leaves[0]
    leaves += [like.new_zeros(0)] * (len(shapes) - len(leaves))
    for leaf, (shape, kind) in zip(leaves, shapes):
        leaf = leaf.to(kind)
        if list(leaf.shape) != list(shape):
            whole = leaf.new_zeros(shape)
            if leaf.numel():
                whole[tuple(slice(size) for size in leaf.shape)] = leaf
            leaf = whole
        made.append(leaf)
    return tuple(made) if len(made) > 1 else made[0]
"""
# A worker that has no access to the checkout runs the reference too: its text is part of it.
_PROBLEM = """\
{text}

from typing import Annotated

import torch

from cuassay import domains, problem, tensor

{rebuilt}

def inputs(axes, device):
    import sys

    sys.path[:0] = [{benchmarks!r}, {benchmarks!r} + "/.."]
    from parallel_deck import given_to

    trial = int(torch.randint(0, 1 << 20, ()))
    return given_to({checkout!r}, {ranks}, {number}, {shape}, {plan}, trial, str(device))


@problem(ranks=({ranks},), axes={{}}, workloads=[{{}}], generator=inputs, per_rank=True)
def reference({annotated}) -> {returned}:
    return _as(solution({arguments}), {shapes})
"""
_KERNEL = """\
{text}

{rebuilt}

def run({names}):
    return _as(solution({arguments}), {shapes})
"""


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
            except Exception as error:  # a row, and the next problem
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


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A tensor of all ranks: where it is in an argument, and the shape that holds every rank's."""

    name: str
    way: tuple[object, ...]
    shape: tuple[int, ...]
    ragged: bool


@dataclass(frozen=True, slots=True)
class _Members:
    """A process group, by its ranks."""

    ranks: tuple[int, ...]


class _Plan:
    """How the arguments of all ranks are made of tensors of one shape: as text, and as leaves.

    Numbers that differ from rank to rank, or from trial to trial, become tensors of one element.
    """

    def __init__(self, trials: Sequence[Sequence[tuple[Any, ...]]]) -> None:
        self.leaves: list[_Leaf] = []
        self.kinds: dict[str, torch.Tensor] = {}
        self._ranks = len(trials[0])
        columns = zip(*(given for trial in trials for given in trial), strict=True)
        self.text = ", ".join(self._text(column, (n,)) for n, column in enumerate(columns))

    def _text(self, column: Sequence[Any], way: tuple[object, ...]) -> str:
        """Return the text that makes a value of every trial and rank again."""
        first = column[0]
        if len({type(one) for one in column}) > 1:
            raise NotExpressibleError(f"argument {way} is of another kind from rank to rank")
        match first:
            case torch.Tensor() if first.is_sparse:
                size = self._text([tuple(one.shape) for one in column], (*way, "shape"))
                indices = self._text([one.indices() for one in column], (*way, "indices"))
                values = self._text([one.values() for one in column], (*way, "values"))
                return f"_sparse({indices}, {values}, {size})"
            case torch.Tensor() if first.is_complex():
                pairs = self._text([torch.view_as_real(one) for one in column], (*way, "pairs"))
                return f"_torch.view_as_complex({pairs})"
            case torch.Tensor():
                return self._leaf(column, way)
            case _Members():
                return f"_group({sorted({one.ranks for one in column})})"
            case torch.nn.Linear():
                weight = self._text([one.weight for one in column], (*way, "weight"))
                bias = self._text([one.bias for one in column], (*way, "bias"))
                return f"_linear({weight}, {bias})"
            case tuple() | list() if len({len(one) for one in column}) == 1:
                parts = [
                    self._text([one[n] for one in column], (*way, n)) for n in range(len(first))
                ]
                inside = ", ".join(parts)
                return f"[{inside}]" if isinstance(first, list) else f"({inside},)"
            case _ if isinstance(first, _NUMBERS) and all(one == first for one in column):
                return repr(first)
            case int() | float():
                kind = torch.int64 if isinstance(first, int) else torch.float64
                made = [torch.tensor(one, dtype=kind) for one in column]
                return f"{self._leaf(made, way)}.item()"
        raise NotExpressibleError(f"argument {way} is a {type(first).__name__}")

    def _leaf(self, column: Sequence[torch.Tensor], way: tuple[object, ...]) -> str:
        if len({one.dim() for one in column}) > 1 or len({one.dtype for one in column}) > 1:
            raise NotExpressibleError(f"argument {way} differs in dimensions from rank to rank")
        shape = tuple(max(sizes) for sizes in zip(*(one.shape for one in column), strict=True))
        ragged = len({one.shape for one in column}) > 1
        if ragged:  # other trials may need more
            shape = (shape[0] + shape[0] // 4, *shape[1:])
        name = f"x{len(self.leaves)}"
        self.leaves.append(_Leaf(name, way, shape, ragged))
        self.kinds[name] = column[0].detach()
        if not ragged:
            return name
        sizes = [torch.tensor(one.shape) for one in column]
        return f"_part({name}, {self._leaf(sizes, (*way, 'sizes'))})"


def _at(value: Any, way: Sequence[object]) -> Any:
    for step in way:
        match step:
            case "shape":
                value = tuple(value.shape)
            case "sizes":
                value = torch.tensor(value.shape)
            case "pairs":
                value = torch.view_as_real(value)
            case "indices" | "values":
                value = getattr(value, step)()
            case "weight" | "bias":
                value = getattr(value, step).detach()
            case int():
                value = value[step]
    return value


def given_to(
    checkout: str,
    ranks: int,
    number: int,
    shape: tuple[int, int],
    plan: Sequence[tuple[str, Sequence[object], Sequence[int]]],
    trial: int,
    device: str,
) -> dict[str, torch.Tensor]:
    """Return the tensors of a plan: of all ranks in one, those of other sizes filled up."""
    create = _function(Path(checkout, "utils", "input_output_tensors.py"), "create_input_tensor")

    def of(rank: int) -> tuple[Any, ...]:
        made: tuple[Any, ...] = create(
            rank, ranks, number, shape, torch.float32, trial=trial, device=device
        )
        return made

    found = run_together(of, ranks)
    tensors = {}
    for name, way, sizes in plan:
        listed = []
        for given in found:
            value = torch.as_tensor(_at(given, way)).detach().to(device)
            whole = value.new_zeros(list(sizes))
            whole[tuple(slice(size) for size in value.shape)] = value
            listed.append(whole)
        tensors[name] = torch.stack(listed)
    return tensors


def _write(place: Path, checkout: Path, file: Path, number: int, ranks: int) -> None:
    """Write the problem and its candidate. Raises NotExpressibleError."""
    create = _function(checkout / "utils" / "input_output_tensors.py", "create_input_tensor")
    solution = _function(file, "solution")
    shape, plan, found = _sampled(create, solution, number, ranks)
    rebuilt: dict[str, Any] = {}
    exec(_REBUILT, rebuilt)
    answers = [rebuilt["_leaves"](one) for trial in found for one in trial]
    longest = max(answers, key=len)
    if not longest:
        raise NotExpressibleError("the reference returns no tensor")
    shapes = []
    for n, like in enumerate(longest):
        several = [one[n].shape for one in answers if len(one) > n]
        if len({len(one) for one in several}) > 1:
            # A rank that is not the root has another number of dimensions: it is filled up.
            several = [one for one in several if len(one) == len(like.shape)]
        sizes = [max(some) for some in zip(*several, strict=True)]
        if len({tuple(one) for one in several}) > 1 and sizes:
            sizes[0] += sizes[0] // 4
        shapes.append((sizes, like))
    returned = [_annotation(like, sizes, f"y{n}") for n, (sizes, like) in enumerate(shapes)]
    place.mkdir()
    said = {
        "rebuilt": _REBUILT,
        "arguments": plan.text,
        "text": file.read_text(),
        "shapes": "[" + ", ".join(f"({sizes}, {like.dtype})" for sizes, like in shapes) + "]",
    }
    Path(place, "problem.py").write_text(
        _PROBLEM.format(
            **said,
            checkout=str(checkout),
            benchmarks=str(Path(__file__).resolve().parent),
            ranks=ranks,
            number=number,
            shape=shape,
            plan=[(leaf.name, leaf.way, leaf.shape) for leaf in plan.leaves],
            annotated=", ".join(
                f"{leaf.name}: {_annotation(plan.kinds[leaf.name], leaf.shape, '')}"
                for leaf in plan.leaves
            ),
            returned=returned[0] if len(returned) == 1 else f"tuple[{', '.join(returned)}]",
        )
    )
    names = ", ".join(leaf.name for leaf in plan.leaves)
    Path(place, "kernel.py").write_text(_KERNEL.format(**said, names=names))


def _sampled(
    create: Callable[..., Any], solution: Callable[..., Any], number: int, ranks: int
) -> tuple[tuple[int, int], _Plan, list[list[Any]]]:
    """Return a shape, how the arguments are made, and what the reference returns by trial, rank."""
    why = ""
    for shape in _SHAPES:

        def call(
            rank: int, trial: int, shape: tuple[int, int] = shape
        ) -> tuple[tuple[Any, ...], Any]:
            given = create(rank, ranks, number, shape, torch.float32, trial=trial, device=_DEVICE)
            found = solution(*given)
            groups = {
                place: _Members(tuple(dist.get_process_group_ranks(one)))
                for place, one in enumerate(given)
                if isinstance(one, dist.ProcessGroup)
            }
            return tuple(groups.get(place, one) for place, one in enumerate(given)), found

        try:
            trials: Any = [
                run_together(lambda rank, trial=trial: call(rank, trial), ranks)
                for trial in range(_TRIALS)
            ]
            plan = _Plan([[given for given, _ in trial] for trial in trials])
            return shape, plan, [[found for _, found in trial] for trial in trials]
        except NotExpressibleError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
    raise NotExpressibleError(why)


def _annotation(like: torch.Tensor, shape: Sequence[int], name: str) -> str:
    dims = ", ".join(["'ranks'", *map(str, shape)])
    kind = str(like.dtype).removeprefix("torch.")
    if name:
        return f'Annotated[torch.Tensor, tensor("{kind}", {dims}, name={name!r})]'
    # Indices and masks are what the deck makes them, no matter in which type.
    whole = not like.dtype.is_floating_point or bool((like == like.round()).all())
    domain = ", domain=domains.Opaque(why='the deck makes it')" if whole else ""
    return f'Annotated[torch.Tensor, tensor("{kind}", {dims}{domain})]'


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
