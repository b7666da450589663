"""Which problems and candidates a tree is found to hold, in every format, and what is odd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuassay.audit.discover import discover
from cuassay.audit.family import operator_family
from cuassay.errors import UsageError
from tests.support import trees


def _pairs(root: Path) -> set[tuple[str, str, str]]:
    return {
        (p.problem.name, p.candidate.name, p.candidate.author) for p in discover(str(root)).pairs
    }


def _oddities(root: Path) -> dict[str, str]:
    return {Path(o.path).name: o.message for o in discover(str(root)).oddities}


def test_sol_directories_with_solutions_wherever_people_put_them(tmp_path: Path) -> None:
    trees.sol(tmp_path / "L1" / "001_twice", "001_twice")
    trees.solution(tmp_path / "L1" / "001_twice" / "solution.json", "001_twice", name="beside")
    trees.solution(tmp_path / "L1" / "001_twice" / "bob" / "solution.json", "001_twice", name="in")
    trees.write(tmp_path / "L1" / "001_twice" / "candidates" / "plain.py", "def run(x): ...\n")
    trees.solution(tmp_path / "all" / "far.json", "001_twice", name="far", author="model-x")
    assert _pairs(tmp_path) == {
        ("001_twice", "beside", "a"),
        ("001_twice", "in", "a"),
        ("001_twice", "plain", ""),
        ("001_twice", "far", "model-x"),
    }
    assert _oddities(tmp_path) == {}


def test_one_name_in_two_subsets_goes_to_the_nearer(tmp_path: Path) -> None:
    for level in ("L1", "L2"):
        trees.sol(tmp_path / level / "p", "same")
        trees.solution(tmp_path / level / "answers" / "s.json", "same", name=level)
    found = {p.candidate.name: p.problem.where for p in discover(str(tmp_path)).pairs}
    assert found == {"L1": str(tmp_path / "L1" / "p"), "L2": str(tmp_path / "L2" / "p")}


def test_a_solution_that_fits_two_problems_alike_is_said(tmp_path: Path) -> None:
    for level in ("L1", "L2"):
        trees.sol(tmp_path / level, "same")
    trees.solution(tmp_path / "answers" / "s.json", "same")
    assert "which 2 problems of the tree are called" in _oddities(tmp_path)["s.json"]


def test_native_problems_with_kernels_beside_and_below(tmp_path: Path) -> None:
    trees.native(tmp_path / "a", "twice")
    trees.write(tmp_path / "a" / "kernel.py", "def run(x): ...\n")
    trees.write(tmp_path / "a" / "kernel_fast.py", "# model: gpt\ndef run(x): ...\n")
    trees.write(tmp_path / "a" / "helper.py", "def help(): ...\n")
    trees.write(tmp_path / "a" / "candidates" / "carol" / "one.py", "def run(x): ...\n")
    trees.write(tmp_path / "a" / "candidates" / "two.cu", "__global__ void k() {}\n")
    trees.write(tmp_path / "a" / "candidates" / "three" / "kernel.py", "def run(x): ...\n")
    trees.write(tmp_path / "a" / "candidates" / "three" / "parts.py", "def part(): ...\n")
    assert _pairs(tmp_path) == {
        ("twice", "a/kernel", ""),
        ("twice", "kernel_fast", "gpt"),
        ("twice", "one", "carol"),
        ("twice", "two", ""),
        ("twice", "three", ""),
    }


def test_a_file_with_two_problems_owns_no_folder(tmp_path: Path) -> None:
    text = trees.NATIVE.replace("NAME", "one") + trees.NATIVE.replace("NAME", "two")
    trees.write(tmp_path / "problems.py", text)
    trees.write(tmp_path / "candidates" / "k.py", "def run(x): ...\n")
    found = discover(str(tmp_path))
    assert [p.where for p in found.problems] == [
        f"{tmp_path}/problems.py:one",
        f"{tmp_path}/problems.py:two",
    ]
    assert "names no problem" in _oddities(tmp_path)["k.py"]


def test_flashinfer_trace_trees(tmp_path: Path) -> None:
    definition = {
        "name": "rmsnorm_h8",
        "op_type": "norm",
        "axes": {},
        "inputs": {},
        "outputs": {},
        "reference": "",
    }
    trees.write(tmp_path / "definitions/norm/rmsnorm_h8.json", json.dumps(definition))
    trees.write(tmp_path / "workloads/norm/rmsnorm_h8.jsonl", "")
    trees.write(tmp_path / "traces/norm/rmsnorm_h8.jsonl", "{}\n")
    trees.solution(tmp_path / "solutions/claude/norm/rmsnorm_h8/s1.json", "rmsnorm_h8", name="s1")
    (pair,) = discover(str(tmp_path)).pairs
    assert (pair.problem.format, pair.problem.op_type) == ("flashinfer-trace", "norm")
    assert pair.problem.files[1].name == "rmsnorm_h8.jsonl"
    assert pair.candidate.name == "s1"


def test_kernelbench_by_level_and_number_and_by_name(tmp_path: Path) -> None:
    model = "class Model(torch.nn.Module): ...\ndef get_inputs(): ...\n"
    new = model + "class ModelNew(torch.nn.Module): ...\n"
    trees.write(tmp_path / "KernelBench/level1/19_ReLU.py", model)
    trees.write(tmp_path / "KernelBench/level2/19_ReLU.py", model)
    trees.write(tmp_path / "runs/opus/level_1_problem_19_sample_0_kernel.py", new)
    trees.write(tmp_path / "generated/level2/19_ReLU.py", new)
    trees.write(tmp_path / "KernelBench/level2/19_ReLU/candidates/mine.py", new)
    found = {
        p.candidate.name: Path(p.problem.where).parent.name for p in discover(str(tmp_path)).pairs
    }
    assert found == {
        "level_1_problem_19_sample_0_kernel": "level1",
        "19_ReLU": "level2",
        "mine": "level2",
    }


def test_gpumode_by_header_and_by_place(tmp_path: Path) -> None:
    folder = tmp_path / "problems" / "pmpp" / "vectoradd_py"
    trees.write(folder / "task.yml", "lang: py\n")
    for name in ("task.py", "reference.py", "eval.py"):
        trees.write(folder / name, "x = 1\n")
    trees.write(folder / "submission.py", "def custom_kernel(data): ...\n")
    trees.write(
        tmp_path / "mine.py", "#!POPCORN leaderboard vectoradd\ndef custom_kernel(d): ...\n"
    )
    assert {name for _, name, _ in _pairs(tmp_path)} == {"vectoradd_py/submission", "mine"}


def test_lists_take_names_paths_and_say_which_line_is_off(tmp_path: Path) -> None:
    trees.native(tmp_path / "p")
    kernel = trees.write(tmp_path / "k.py", "def run(x): ...\n")
    text = (
        f"problem,candidate,author,family\np/problem.py,k.py,me,norm\nrmsnorm,{kernel},,\n,k.py,,\n"
    )
    trees.write(tmp_path / "list.csv", text)
    found = discover(str(tmp_path / "list.csv"))
    assert [(p.problem.where, p.candidate.author, p.family) for p in found.pairs] == [
        (str(tmp_path / "p" / "problem.py"), "me", "norm"),
        ("rmsnorm", "", ""),
    ]
    assert found.oddities[0].message == "names no problem: passed over"
    lines = ['{"problem": "rmsnorm", "candidate": "k.py"}', '{"problem": "rms', "[1]"]
    trees.write(tmp_path / "list.jsonl", "\n".join(lines))
    found = discover(str(tmp_path / "list.jsonl"))
    assert len(found.pairs) == 1
    assert [o.path.rpartition(": ")[2] for o in found.oddities] == ["line 2", "line 3"]


def test_a_list_without_its_columns_is_one_message(tmp_path: Path) -> None:
    trees.write(tmp_path / "l.csv", "problme,candidate\n")
    with pytest.raises(UsageError, match="did you mean 'problme'"):
        discover(str(tmp_path / "l.csv"))


def test_what_is_broken_is_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    trees.sol(tmp_path / "good", "good")
    trees.write(tmp_path / "good" / "solution.json", '{"name": "half')
    trees.sol(tmp_path / "lonely", "lonely")
    trees.write(tmp_path / "broken" / "definition.json", "{")
    trees.write(tmp_path / "broken" / "kernel.py", "def run(x): ...\n")
    (tmp_path / "good" / "dangling.py").symlink_to(tmp_path / "absent")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = discover(str(tmp_path))
    # Broken candidates and problems stay in the plan: their trials say what is wrong.
    assert {(p.problem.name, p.candidate.name) for p in found.pairs} == {
        ("good", "good/solution"),
        ("broken", "broken/kernel"),
    }
    odd = _oddities(tmp_path)
    assert odd["dangling.py"] == "a link to nothing"
    assert "has no candidate" in odd["lonely"]
    assert odd["definition.json"].startswith("cannot be read")


def test_a_large_tree_is_walked_and_an_audit_in_it_is_not(tmp_path: Path) -> None:
    trees.native(tmp_path / "p")
    folder = tmp_path / "p" / "candidates"
    folder.mkdir()
    for number in range(10_000):
        (folder / f"k{number}.py").write_text("def run(x): ...\n")
    trees.write(tmp_path / "audit" / "plan.ndjson", "")
    trees.write(tmp_path / "audit" / "candidates" / "stray.py", "def run(x): ...\n")
    found = discover(str(tmp_path))
    assert len(found.pairs) == 10_000
    assert found.oddities == ()


def test_nothing_to_find_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a problem nor a candidate"):
        discover(str(tmp_path))
    with pytest.raises(UsageError, match="does not exist"):
        discover(str(tmp_path / "absent"))
    with pytest.raises(UsageError, match="no list's kind"):
        discover(str(trees.write(tmp_path / "k.py", "")))


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("fused_add_rmsnorm", "norm"),
        ("19_ReLU", "activation"),
        ("ScaledDotProductAttention", "attention"),
        ("012_gqa_paged_decode_h32", "attention"),
        ("fp8_gemm_block", "quantisation"),
        ("moe_route_grouped", "mixture of experts"),
        ("adamw_step", "optimizer"),
        ("cross_entropy_backward", "loss"),
        ("embedding_grad", "embedding"),
        ("batched_gemm", "matrix product"),
        ("xyz", "other"),
        ("44_MiniGPTBlock", "network"),
        ("10_ResNet101", "network"),
        ("8_hunyuanvideo_vae_decoder", "network"),
        ("18_vision_transformer_attention", "attention"),
    ],
)
def test_families(name: str, family: str) -> None:
    assert operator_family(name) == family


def test_the_op_type_decides_before_the_name() -> None:
    assert operator_family("attention_out", op_type="gemm") == "matrix product"
    assert operator_family("p1", description="RMSNorm.\nUsed before attention.") == "norm"


@pytest.mark.parametrize("name", ["submissions", "candidates", "solutions"])
def test_what_the_root_is_called_tells_nothing(tmp_path: Path, name: str) -> None:
    trees.native(tmp_path / name / "p")
    trees.write(tmp_path / name / "p" / "candidates" / "zoe" / "a.py", "def run(x): ...\n")
    trees.write(tmp_path / name / "p" / "candidates" / "b.py", "def run(x): ...\n")
    found = discover(str(tmp_path / name))
    assert [problem.name for problem in found.problems] == ["twice"]
    pairs = {pair.candidate.name: pair.candidate.author for pair in found.pairs}
    assert pairs == {"a": "zoe", "b": ""}
    assert found.oddities == ()


def test_nothing_in_a_candidates_folder_defines_a_problem(tmp_path: Path) -> None:
    trees.sol(tmp_path / "p", "twice")
    own = "from cuassay import problem\n\n\n@problem(axes={})\ndef twice(x): ...\n"
    for place in ("candidates/alice", "bob", "solutions"):
        folder = tmp_path / "p" / place
        trees.write(folder / "kernel.py", "def run(x): return x * 0\n")
        trees.sol(folder, "twice")
        trees.sol(folder / "deeper", "twice")
        trees.write(folder / "problem.py", own)
        trees.write(folder / "task.yml", "lang: py\n")
    trees.write(tmp_path / "p" / "kernel_problem.py", own)
    found = discover(str(tmp_path))
    assert [problem.where for problem in found.problems] == [str(tmp_path / "p")]
    assert {pair.problem.where for pair in found.pairs} == {str(tmp_path / "p")}
    passed = [o for o in found.oddities if "nothing defines a problem" in o.message]
    assert {Path(o.path).name for o in passed} == {"definition.json", "task.yml"}


def test_deeply_nested_json_and_endless_decorators_are_read_in_one_pass(tmp_path: Path) -> None:
    trees.sol(tmp_path / "p", "twice")
    deep = "[" * 200_000 + "]" * 200_000
    trees.write(tmp_path / "p" / "candidates" / "deep.json", deep)
    trees.write(tmp_path / "other" / "definition.json", '{"a": ' + deep + "}")
    trees.write(tmp_path / "many.py", "@problem(\n" * 23_000)
    found = discover(str(tmp_path))
    assert "deep" in {pair.candidate.name for pair in found.pairs}
    assert "many" in {problem.name for problem in found.problems}
    said = {Path(o.path).name: o.message for o in found.oddities}
    assert said["definition.json"] == "cannot be read: it is nested too deeply"
