"""How a reference uses its inputs is seen by running it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from cuassay.contract.facts import Used
from cuassay.contract.uses import with_uses
from cuassay.formats import load_problem
from cuassay.formats.execute import load_reference
from cuassay.model.device import CPU
from cuassay.model.domain import Domain, Index, IntegerRange, Opaque, Packed, Positive, Real
from cuassay.model.problem import Problem
from tests.support import trees

DATA = Path(__file__).parents[2] / "data" / "formats"
VOCAB = Index(axis="vocab")
_AXES = {
    "tokens": {"type": "var"},
    "seqs": {"type": "var"},
    "hidden": {"type": "const", "value": 8},
    "vocab": {"type": "const", "value": 32},
}
_SHAPES = {"i": ["tokens"], "labels": ["tokens"], "w": ["vocab", "hidden"]}
_IMPORTS = "import torch\nimport torch.nn.functional as F\n"


def used(
    folder: Path,
    body: str,
    *,
    inputs: Sequence[str] = ("i", "w", "x"),
    outputs: Mapping[str, Sequence[str]] | None = None,
    generator: str = "",
) -> Problem:
    """Return the problem of a reference of `body` with what its run shows."""

    def indented(text: str) -> str:
        return text.replace("\n", "\n    ")

    reference = f"{_IMPORTS}def run({', '.join(inputs)}):\n    {indented(body)}\n"
    changes: dict[str, object] = {}
    if generator:
        reference += f"def gen(axes, device):\n    {indented(generator)}\n"
        changes["custom_inputs_entrypoint"] = "gen"
    file = trees.sol(
        folder,
        "p",
        axes=_AXES,
        inputs={
            name: {
                "shape": _SHAPES.get(name, ["tokens", "hidden"]),
                "dtype": "int64" if name in ("i", "labels") else "float32",
            }
            for name in inputs
        },
        outputs={
            name: {"shape": list(shape), "dtype": "float32"}
            for name, shape in (outputs or {"y": ["tokens", "hidden"]}).items()
        },
        reference=reference,
        **changes,
    )
    kind = "custom" if generator else "random"
    workload = {
        "uuid": "w",
        "axes": {"tokens": 32, "seqs": 8},
        "inputs": {name: {"type": kind} for name in inputs},
    }
    file.write_text(json.dumps(workload) + "\n")
    problem = load_problem(str(folder))
    return with_uses(problem, load_reference(problem), device=CPU)[0]


def domain(problem: Problem, name: str) -> Domain:
    return problem.input(name).domain


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return F.embedding(i, w)", VOCAB),
        ("return torch.nn.functional.embedding(i.view(-1), w.float())", VOCAB),
        ("return w[i]", VOCAB),
        ("return w[:, i]", Index(axis="hidden")),
        ("return w[..., i]", Index(axis="hidden")),
        ("flat = i.reshape(-1).int().long()\nreturn w[flat.clamp(min=0)]", VOCAB),
        ("def inner(rows):\n    return w.T[:, rows]\nreturn inner(i)", VOCAB),
        ("return w.index_select(1, i)", Index(axis="hidden")),
        ("return torch.gather(x, 0, i[:, None])", Index(axis="tokens")),
        ("g = torch.zeros_like(w)\ng.index_add_(0, i, x)\nreturn g", VOCAB),
        ("return F.one_hot(i, num_classes=w.size(0))", VOCAB),
        ("return F.one_hot(i, 7)", Index(axis="7")),
        ("return F.one_hot(i, w.shape[0] + 1)[:, :8]", Index(axis="33")),
        ("return F.one_hot(i, x.shape[0] + 1)[:, :8]", Index(axis="(tokens + 1)")),
        ("return F.cross_entropy(x @ w.t(), i)", VOCAB),
        ("logits = F.linear(x, w)\nreturn F.nll_loss(F.log_softmax(logits, -1), i)", VOCAB),
        ("g = torch.zeros_like(w)\ng[i] = x\nreturn g", Index(axis="vocab", unique=True)),
        ("g = torch.zeros_like(w)\ng[i] = 1.0\nreturn g", VOCAB),
        (
            "g = torch.zeros_like(w)\ng.index_copy_(0, i, x)\nreturn g",
            Index(axis="vocab", unique=True),
        ),
        ("w = w.clone()\nw[i] += x\nreturn w", Index(axis="vocab", unique=True)),
        # What needs data gets some: the range of indices is known from the call before.
        ("g = w[i]\nreturn g if g.sum().item() > 0 else -g", VOCAB),
    ],
)
def test_what_an_index_is_into(body: str, expected: Domain, tmp_path: Path) -> None:
    assert domain(used(tmp_path, body), "i") == expected


@pytest.mark.parametrize(
    "body",
    [
        "return i[:, None] + x",
        "return w[i - 1]",  # where to begin counting is not known
        "order = i.sort().indices\nreturn x[order]",  # of places, not of values
        "return x * (i > 3)[:, None]",
    ],
)
def test_what_shows_no_index_stays_as_it_was(body: str, tmp_path: Path) -> None:
    assert domain(used(tmp_path, body), "i") == IntegerRange(low=-1024, high=1023)


@pytest.mark.parametrize(
    ("body", "bits"),
    [
        ("return ((i >> 4) & 15)[:, None] * x + (i & 15)[:, None] * x", 4),
        ("parts = (i[:, None] >> torch.arange(0, 64, 8)) & 0xFF\nreturn parts * x", 8),
        ("wide = i.view(-1, 1)\nreturn torch.bitwise_right_shift(wide, 2).bitwise_and(3) * x", 2),
    ],
)
def test_codes_that_are_shifted_and_cut_are_packed(body: str, bits: int, tmp_path: Path) -> None:
    assert domain(used(tmp_path, body), "i") == Packed(bits=bits)


@pytest.mark.parametrize(
    "body",
    [
        "return (i & 15)[:, None] * x",  # a remainder: nothing is taken from above it
        "return (i >> 4)[:, None] * x",
        "return w[(i >> 4) & 15] * x",  # an index of its own
        "return ((i >> 4) & 6)[:, None] * x",
    ],
)
def test_what_takes_no_codes_out_is_not_packed(body: str, tmp_path: Path) -> None:
    assert not isinstance(domain(used(tmp_path, body), "i"), Packed)


def test_a_loop_over_rows_needs_data_and_is_run_with_the_generators(tmp_path: Path) -> None:
    body = "rows = [x[r] for r in i[i >= 0].unbind()]\nreturn torch.stack(rows) + w[i]"
    made = (
        "n = axes['tokens']\n"
        "return {'i': torch.arange(n) % 5, 'w': torch.randn(32, 8), 'x': torch.randn(n, 8)}"
    )
    problem = used(tmp_path, body, generator=made)
    assert domain(problem, "i") == VOCAB


def test_a_loop_over_rows_of_large_workloads_is_run_at_a_share_of_them(tmp_path: Path) -> None:
    """Sizes unlike each other are refused, and the workload's are too many elements to run."""
    text = """import torch
class Model(torch.nn.Module):
    def __init__(self, heads, shared):
        super().__init__()
        assert heads % shared == 0
    def forward(self, query, cache, table, used):
        pages = [table[row, : int(used[row].item())].long() for row in range(len(used))]
        rows = [cache[each].sum(0) for each in pages]
        return query + torch.stack(rows).repeat_interleave(query.shape[1] // cache.shape[1], 1)
rows, heads, shared, pages, slots = 64, 32, 8, 4096, 64
def get_init_inputs():
    return [heads, shared]
def get_inputs():
    query, cache = torch.randn(rows, heads, 64), torch.randn(pages, shared, 64, 16)
    table = torch.randint(0, pages, (rows, slots), dtype=torch.int32)
    return [query, cache.mean(-1), table, torch.full((rows,), slots, dtype=torch.int32)]
"""
    file = trees.write(tmp_path / "paged.py", text)
    problem = load_problem(str(file))
    shown = with_uses(problem, load_reference(problem), device=CPU)[0]
    assert domain(shown, "table") == Index(axis="pages")


def test_without_a_use_only_the_generator_tells(tmp_path: Path) -> None:
    made = "n = axes['tokens']\nreturn {'i': torch.randint(0, 32, (n,)), 'x': torch.randn(n, 8)}"
    problem = used(tmp_path, "return x * i[:, None]", inputs=("i", "x"), generator=made)
    assert isinstance(domain(problem, "i"), Opaque)


def test_roots_logarithms_and_reciprocals_need_positive_numbers(tmp_path: Path) -> None:
    body = "return a.log() + torch.rsqrt(b + 1) + c.clamp(min=1e-6).log() + d + 1 / e.abs()"
    problem = used(tmp_path, body, inputs=tuple("abcde"))
    found = [spec.domain for spec in problem.inputs]
    assert found == [Positive(), Positive(), Real(), Real(), Real()]
    assert problem.inputs[0].domain_source == "experiment"


@pytest.mark.parametrize("first", ["pass", "if a.float().sum().item() > 1e9:\n        return a"])
def test_scales_of_blocks_are_positive(tmp_path: Path, first: str) -> None:
    reference = f"""{_IMPORTS}
def run(a, b, scale_a, scale_b):
    {first}
    tiles = [s.view(1, 4, 32, 4).transpose(1, 2).reshape(-1) for s in (scale_a, scale_b)]
    return torch._scaled_mm(a, b.t(), *tiles, out_dtype=torch.float32)
"""
    names = ("a", "b", "scale_a", "scale_b")
    file = trees.sol(
        tmp_path,
        "p",
        axes={"n": {"type": "var"}},
        inputs={
            name: {"shape": ["128", "4" if "_" in name else "64"], "dtype": "float8_e4m3fn"}
            for name in names
        },
        outputs={"y": {"shape": ["128", "128"], "dtype": "float32"}},
        reference=reference,
    )
    workload = {
        "uuid": "w",
        "axes": {"n": 8},
        "inputs": {name: {"type": "random"} for name in names},
    }
    file.write_text(json.dumps(workload) + "\n")
    problem = load_problem(str(tmp_path))
    shown = with_uses(problem, load_reference(problem), device=CPU)[0]
    assert [one.domain for one in shown.inputs] == [Real(), Real(), Positive(), Positive()]


def test_ignored_labels_are_a_sentinel_only_where_the_source_says_so(tmp_path: Path) -> None:
    body, inputs = "return F.cross_entropy(x @ w.t(), labels{})", ("labels", "w", "x")
    plain = used(tmp_path / "plain", body.format(""), inputs=inputs)
    assert domain(plain, "labels") == VOCAB
    told = used(tmp_path / "told", body.format(", ignore_index=-100"), inputs=inputs)
    assert domain(told, "labels") == Index(axis="vocab", sentinels=(-100,))


def test_index_inputs_name_the_outputs_that_are_written_by_row(tmp_path: Path) -> None:
    outputs = {"g": ("vocab", "hidden"), "total": ("hidden",)}
    adds = "g = torch.zeros_like(w)\ng.index_add_(0, i, x)\nreturn g, g.sum(0)"
    assert used(tmp_path / "adds", adds, outputs=outputs).index_inputs == {"i": ("g",)}
    reads = "return w[i].mean(0) * w, w[i].sum(0)"
    assert used(tmp_path / "reads", reads, outputs=outputs).index_inputs == {}


def test_a_stored_problem_end_to_end() -> None:
    problem = load_problem(str(DATA / "scatter_rows"))
    made, facts = with_uses(problem, load_reference(problem), device=CPU)
    assert domain(made, "ids") == Index(axis="slots")
    assert made.index_inputs == {"ids": ("table",)}
    (fact,) = [known.fact for known in facts if isinstance(known.fact, Used)]
    assert (fact.input, fact.axis) == ("ids", "slots")


def test_an_index_among_a_modules_state_stays_what_its_constructor_makes(tmp_path: Path) -> None:
    text = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("order", torch.arange(6).flip(0))

    def forward(self, x):
        return x[:, self.order]


def get_inputs():
    return [torch.rand(4, 6)]


def get_init_inputs():
    return []
"""
    problem = load_problem(str(trees.write(tmp_path / "ordered.py", text)))
    found, facts = with_uses(problem, load_reference(problem), device=CPU)
    assert found.input("state_order").domain == problem.input("state_order").domain
    assert isinstance(found.input("state_order").domain, Opaque)
    assert not facts
