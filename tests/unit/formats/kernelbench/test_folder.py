"""A folder with reference.py, shapes.py, problem.yaml and solution.py: read, or what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from cuassay.errors import CandidateError, ProblemError
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.execute import load_reference
from cuassay.formats.own_problem import own_file
from cuassay.model.axes import resolve, shape_of
from cuassay.model.domain import Choice
from cuassay.model.jobs import TrialJob
from cuassay.model.precision import Precision
from cuassay.model.problem import Problem, TensorSpec
from cuassay.model.verdict import Profile
from cuassay.oracle.lift.run import lift
from tests.support import foreign, trees
from tests.zoo.local_gate import LocalGate

_REFERENCE = """import torch
import torch.nn as nn

BATCH = 8
HEADS = 8
KV_HEADS = 2
LENGTH = 64
PAGE = 16
_EPS = 1e-6


class Model(nn.Module):
    \"\"\"The mean of each page's keys, added to every query of its group.\"\"\"

    def __init__(self, batch, heads, kv_heads, page):
        super().__init__()
        assert heads % kv_heads == 0
        self.heads, self.kv_heads, self.page = heads, kv_heads, page

    def forward(self, query, cache, table):
        group = self.heads // self.kv_heads
        keys = cache[table.long()].mean((1, 2)).repeat_interleave(group, dim=1)
        return query + keys


def _pages():
    return (LENGTH + PAGE - 1) // PAGE


def get_inputs():
    count = max(BATCH * _pages() + 8, 64)
    query = torch.randn(BATCH, HEADS)
    cache = torch.randn(count, PAGE, KV_HEADS)
    table = torch.randperm(count)[: BATCH * _pages()].reshape(BATCH, _pages()).int()
    return [query, cache, table]


def get_init_inputs():
    return [BATCH, HEADS, KV_HEADS, PAGE]
"""
_SHAPES = """SHAPES = [
    {"batch": 8, "heads": 8, "kv_heads": 2, "length": 64, "PAGE": 16},
    {"batch": 2, "heads": 12, "kv_heads": 4, "length": 100, "PAGE": 16},
]
"""
_YAML = "name: 03_mean_of_pages\ntolerance:\n  torch.float32: 2e-3\n  bfloat16: 0.02\n"
_SOLUTION = _REFERENCE.partition("def _pages")[0]


def _folder(path: Path, files: Mapping[str, str] | None = None) -> Path:
    for name, text in {
        "reference.py": _REFERENCE, "shapes.py": _SHAPES, "problem.yaml": _YAML,
        "solution.py": _SOLUTION, **(files or {}),
    }.items():  # fmt: skip
        if text:
            trees.write(path / name, text)
    return path


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    return load_problem(str(_folder(tmp_path / "op")))


def test_every_constant_that_makes_inputs_or_the_module_is_an_axis(problem: Problem) -> None:
    axes = {axis.name for axis in problem.var_axes()}
    assert axes == {"BATCH", "HEADS", "KV_HEADS", "LENGTH", "PAGE"}
    assert set(problem.built) == {"BATCH", "HEADS", "KV_HEADS", "PAGE"}
    shapes = {spec.name: spec.shape for spec in problem.inputs if isinstance(spec, TensorSpec)}
    sizes = resolve(problem.axes, {"BATCH": 3, "HEADS": 6, "KV_HEADS": 3, "LENGTH": 50, "PAGE": 7})
    assert shape_of(shapes["cache"], sizes) == (64, 7, 3)
    assert shape_of(shapes["table"], sizes) == (3, 8)


def test_listed_shapes_are_the_workloads_with_the_files_tolerance(problem: Problem) -> None:
    assert problem.name == "03_mean_of_pages"
    listed = [dict(workload.axes) for workload in problem.workloads]
    assert listed == [
        {"BATCH": 8, "HEADS": 8, "KV_HEADS": 2, "LENGTH": 64, "PAGE": 16},
        {"BATCH": 2, "HEADS": 12, "KV_HEADS": 4, "LENGTH": 100, "PAGE": 16},
    ]
    rules = [one.tolerance for one in problem.workloads]
    assert {(one.atol, one.rtol) for one in rules if one is not None} == {(2e-3, 2e-3)}
    assert problem.workloads[1].sources["built_HEADS"].value == 12  # type: ignore[union-attr]


def test_a_tolerance_of_a_quantized_type_is_read(tmp_path: Path) -> None:
    yaml = "tolerance:\n  float32: 1e-3\n  fp8_e4m3fn: 0.2\n  fp8_e5m2: 0.3\n"
    folder = _folder(tmp_path / "fp8", {"problem.yaml": yaml})
    rule = load_problem(str(folder)).workloads[0].tolerance
    assert rule is not None
    assert rule.atol == 1e-3


_SCALED = """import torch

ROWS = 8


class Model(torch.nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.register_buffer("scale", torch.rand(256) + 0.5)

    def forward(self, x):
        return x * self.scale


def get_inputs():
    return [torch.randn(ROWS, 256)]


def get_init_inputs():
    return [ROWS]
"""


def test_a_state_that_the_benchmark_loads_may_start_as_anything(tmp_path: Path) -> None:
    """Its checkers load the reference's state: zeros of the candidate's constructor hold it."""
    changes = {"reference.py": _SCALED, "shapes.py": "SHAPES = [{'rows': 8}]\n"}
    folder = _folder(tmp_path / "scaled", changes)
    candidate = trees.write(tmp_path / "zeros.py", _SCALED.replace("rand(256) + 0.5", "zeros(256)"))
    alone = trees.write(tmp_path / "alone.py", _SCALED)
    with LocalGate("cpu") as gate:
        loaded = gate.judge(load_problem(str(folder)), candidate, only=("API005",))
        drawn = gate.judge(load_problem(str(alone)), candidate, only=("API005",))
    assert loaded.accepted, str(loaded)
    assert drawn.codes == ("API005",)


@pytest.mark.parametrize(
    ("said", "policy"),
    [
        ("bf16", Precision.MIXED),
        ("int4_bf16", Precision.MIXED),
        ("fp8_e4m3", Precision.FP8),
        ("fp32", Precision.STRICT),
        ("posit16", None),
    ],
)
def test_the_files_precision_is_the_policy(
    tmp_path: Path, said: str, policy: Precision | None
) -> None:
    folder = _folder(tmp_path / said, {"problem.yaml": f"precision: {said}\n"})
    assert load_problem(str(folder)).precision is policy


def test_without_side_files_the_own_sizes_and_kernelbenchs_tolerance_hold(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "plain", {"shapes.py": "", "problem.yaml": ""})
    problem = load_problem(str(folder))
    assert problem.name == "reference"
    assert [dict(one.axes)["LENGTH"] for one in problem.workloads] == [64]
    rule = problem.workloads[0].tolerance
    assert rule is not None
    assert rule.atol == 1e-2


def test_a_solution_beside_its_reference_defines_model(tmp_path: Path, problem: Problem) -> None:
    candidate = load_candidate(str(tmp_path / "op"), problem)
    assert [source.path for source in candidate.sources] == ["cuassay_entry.py", "solution.py"]
    assert "from solution import Model as ModelNew" in candidate.sources[0].text
    both = _SOLUTION + "\n\nclass ModelNew(Model):\n    pass\n"
    file = trees.write(tmp_path / "both.py", both)
    entry = load_candidate(str(file), problem).sources[0].text
    assert "from both import ModelNew as ModelNew" in entry


def test_a_folder_whose_reference_is_the_candidate_declares_itself(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "own")
    job = TrialJob(
        problem=str(folder), candidate=str(folder / "reference.py"), profile=Profile.QUICK
    )
    assert own_file(job) == folder / "reference.py"


_NUCLEUS = """import torch

B = 2
V = 4096
P = 0.9


class Model(torch.nn.Module):
    \"\"\"The tokens that hold the mass P.\"\"\"

    def __init__(self, B, V, P):
        super().__init__()
        self.P = P

    def forward(self, logits):
        share, place = torch.softmax(logits, -1).sort(dim=-1, descending=True, stable=True)
        kept = share.cumsum(-1) - share < self.P
        return torch.zeros_like(kept).scatter(-1, place, kept)


def get_inputs():
    return [torch.randn(B, V)]


def get_init_inputs():
    return [B, V, P]
"""
_MASSES = """SHAPES = [
    {"B": 2, "V": 4096, "P": 0.9},
    {"B": 8, "V": 100, "p": 0.5},
]
"""


def test_a_number_that_is_no_size_is_told_to_the_module(tmp_path: Path) -> None:
    files = {"reference.py": _NUCLEUS, "shapes.py": _MASSES, "problem.yaml": ""}
    problem = load_problem(str(_folder(tmp_path / "nucleus", files)))
    assert {axis.name for axis in problem.var_axes()} == {"B", "V"}
    told = problem.inputs[-1]
    assert (told.name, told.domain) == ("built_P", Choice(values=(0.9, 0.5)))
    assert [one.sources["built_P"].value for one in problem.workloads] == [0.9, 0.5]  # type: ignore[union-attr]
    loaded = load_reference(problem)
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(1))
    share = logits.softmax(-1)
    for mass in (0.9, 0.5):
        kept: Any = loaded.call(logits, 3, 50, mass)
        held = (share * kept).sum(-1)
        least = torch.where(kept, share, 1.0).amin(-1)
        assert bool((held >= mass).all())
        assert bool((held - least < mass).all())


_GROUPED = """import torch

K, N = 4096, 32


class Model(torch.nn.Module):
    \"\"\"A product with weights in groups of 96, the last one shorter.\"\"\"

    def __init__(self, K, N):
        super().__init__()
        assert K % 2 == 0
        weight = torch.randn(K, N)
        scales = [part.abs().amax(0) for part in weight.split(96)]
        self.register_buffer("scales", torch.stack(scales))
        self.register_buffer("codes", weight.sign()[::2])

    def forward(self, x):
        scales = self.scales.repeat_interleave(96, 0)[: x.shape[1]]
        return x @ (self.codes.repeat_interleave(2, 0) * scales)


def get_inputs():
    return [torch.randn(2, K)]


def get_init_inputs():
    return [K, N]
"""


def test_groups_along_an_axis_need_not_divide_it(tmp_path: Path) -> None:
    """A constructor that counts the groups of a tensor says no rule over sizes."""
    shapes = "SHAPES = [{'K': 4096, 'N': 32}, {'K': 3072, 'N': 40}, {'K': 100, 'N': 3}]\n"
    files = {"reference.py": _GROUPED, "shapes.py": shapes, "problem.yaml": ""}
    problem = load_problem(str(_folder(tmp_path / "grouped", files)))
    assert {axis.name for axis in problem.var_axes()} == {"K", "N"}
    assert len(problem.workloads) == 3
    specs = {spec.name: spec.shape for spec in problem.inputs if isinstance(spec, TensorSpec)}
    for k, groups in ((96, 1), (98, 2), (192, 2), (5120, 54)):
        sizes = resolve(problem.axes, {"K": k, "N": 5})
        assert shape_of(specs["state_scales"], sizes) == (groups, 5)


_ROUTED = """import torch

T, E, TOP_K, H, I = 1024, 64, 4, 512, 1024


class Model(torch.nn.Module):
    \"\"\"Experts that no token asks for are left out.\"\"\"

    def __init__(self, T, E, top_k, H, I):
        super().__init__()
        self.E = E
        self.up = torch.nn.Parameter(torch.randn(E, I, H))
        self.down = torch.nn.Parameter(torch.randn(E, H, I))

    def forward(self, x, ids, weights):
        out = torch.zeros_like(x)
        for e in range(self.E):
            mask = ids == e
            if not mask.any():
                continue
            token, k = mask.nonzero(as_tuple=True)
            made = torch.relu(x[token] @ self.up[e].T) @ self.down[e].T
            out.index_add_(0, token, made * weights[token, k].unsqueeze(1))
        return out


def get_inputs():
    values, ids = torch.randn(T, E).topk(TOP_K, -1)
    return [torch.randn(T, H), ids, values.softmax(-1)]


def get_init_inputs():
    return [T, E, TOP_K, H, I]
"""


def test_a_module_that_reads_its_tensors_is_run_with_data_at_small_sizes(tmp_path: Path) -> None:
    """At its own sizes it has 256 MiB of weights; small sizes show what its shapes follow."""
    shapes = "SHAPES = [{'T': 1000, 'E': 64, 'top_k': 4, 'H': 512, 'I': 1024}]\n"
    files = {"reference.py": _ROUTED, "shapes.py": shapes, "problem.yaml": ""}
    before = torch.random.get_rng_state()
    problem = load_problem(str(_folder(tmp_path / "routed", files)))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert {axis.name for axis in problem.var_axes()} == {"T", "E", "TOP_K", "H", "I"}
    specs = {spec.name: spec.shape for spec in problem.inputs if isinstance(spec, TensorSpec)}
    assert specs["ids"] == ("T", "TOP_K")
    assert specs["state_up"] == ("E", "I", "H")
    assert problem.outputs[0].shape == ("T", "H")


_MISTAKES = {
    "unread": (
        {
            "reference.py": _NUCLEUS.replace("[B, V, P]", "[B, V, 2 * P]"),
            "shapes.py": _MASSES,
        },
        "does not hand to Model as it is",
    ),
    "no finite number": (
        {
            "reference.py": _NUCLEUS,
            "shapes.py": "SHAPES = [{'P': float('inf')}]\n",
        },
        "'P' is inf, expected a number",
    ),
    "fixed": (
        {
            "reference.py": _ROUTED.replace(
                "H, I = 1024, 64, 4, 512", "H, I = 1024, 64, 4, 2**15"
            ).replace("self.E = E", "assert H == 2**15; self.E = E"),
            "shapes.py": "",
        },
        "reads a number of a tensor, so that it has to be run with data",
    ),
    "no SHAPES": ({"shapes.py": "SHAPE = [{'batch': 2}]\n"}, "did you mean 'SHAPE'"),
    "no list": ({"shapes.py": "SHAPES = {'batch': 2}\n"}, "expected a list of dicts"),
    "empty": ({"shapes.py": "SHAPES = []\n"}, "give at least one"),
    "no dict": ({"shapes.py": "SHAPES = [(2, 3)]\n"}, "expected a dict of sizes"),
    "no number": ({"shapes.py": "SHAPES = [{'batch': '2'}]\n"}, "expected a whole number"),
    "unknown": ({"shapes.py": "SHAPES = [{'head': 2}]\n"}, "did you mean 'HEADS'"),
    "of a function": (
        {
            "reference.py": _REFERENCE + "\n\ndef run(context, seed):\n    return context\n",
            "shapes.py": "SHAPES = [{'context': 2}]\n",
        },
        "'context' is an argument of the function run of reference.py; cuassay judges calls of",
    ),
    "no tolerance": ({"problem.yaml": "tolerance: 0.1\n"}, "bfloat16: 0.02"),
    "no size": ({"problem.yaml": "tolerance: {float32: tight}\n"}, "expected a number >= 0"),
    "no YAML": ({"problem.yaml": "tolerance: [\n"}, "not valid YAML"),
    "no get_inputs": (
        {"reference.py": _REFERENCE.replace("def get_inputs", "def inputs")},
        r"defines no get_inputs\(\)",
    ),
    "no Model": ({"reference.py": "x = 1\n"}, r"no class Model and no get_inputs\(\)"),
}


@pytest.mark.parametrize("name", _MISTAKES)
def test_mistakes_are_one_message(tmp_path: Path, name: str) -> None:
    files, message = _MISTAKES[name]
    with pytest.raises(ProblemError, match=message):
        load_problem(str(_folder(tmp_path / name.replace(" ", "_"), files)))


def test_a_class_of_another_name_is_told(tmp_path: Path, problem: Problem) -> None:
    text = _SOLUTION.replace("class Model(", "class Models(")
    with pytest.raises(CandidateError, match="neither 'ModelNew' nor 'Model'"):
        load_candidate(str(trees.write(tmp_path / "named.py", text)), problem)


def test_a_module_that_moves_within_a_lifted_call_stays_plain(tmp_path: Path) -> None:
    """A move to a GPU makes its buffers anew: those of a lifted call must not be kept."""
    problem = load_problem(str(foreign.kernelbench(tmp_path)))
    loaded = load_reference(problem)
    assert loaded.generator is not None
    made = loaded.generator({"batch_size": 5, "features": 3, "out": 4}, torch.device("cpu"))
    model = loaded.call.__globals__["_cuassay_models"][3, 4]  # others may have built more sizes
    model.to = lambda device: model._apply(lambda tensor: tensor.clone())
    lift(loaded.call, [*made.values(), 3, 4, 0], names=["output"])  # type: ignore[list-item]
    assert model._cuassay_place == torch.device("cpu")
    state = model.state_dict().values()
    assert {type(one) for one in state} == {torch.Tensor}
    assert all(one.dtype is not torch.float64 for one in state)
