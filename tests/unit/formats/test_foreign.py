"""KernelBench, GPU MODE, flashinfer-trace, hub kernels and custom operators: read and judged.

Each format has a right kernel that passes and a planted bug that is caught, by the real checks.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from cuassay import dispatch_modes
from cuassay.dispatch_modes import without_memory
from cuassay.errors import CandidateError, MissingToolError, ProblemError
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.describe import problem_document
from cuassay.formats.execute import load_reference
from cuassay.model.candidate import Convention
from cuassay.model.domain import Choice, Opaque, SizeOf
from cuassay.model.dtype import DType
from cuassay.model.problem import CustomSource, ExprAxis, Problem, ScalarSource, TensorSpec, VarAxis
from tests.support import foreign, trees
from tests.zoo.judging import Gate
from tests.zoo.local_gate import LocalGate

_CHECKS = ("NUM001", "SHP001", "API003")


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with LocalGate("cpu") as opened:
        yield opened


def _codes(gate: Gate, problem: Problem, path: Path | str) -> set[str]:
    judged = gate.judge(problem, Path(path), seed=11, only=_CHECKS)
    assert judged.accepted or judged.codes, str(judged)
    return set(judged.codes)


def test_a_kernelbench_file_becomes_a_function_of_inputs_and_state(tmp_path: Path) -> None:
    problem = load_problem(str(foreign.kernelbench(tmp_path)))
    assert [axis.name for axis in problem.var_axes()] == ["batch_size", "features", "out"]
    assert problem.axes[0] == VarAxis(name="batch_size")
    assert problem.built == ("features", "out")
    shapes = {s.name: s.shape for s in problem.inputs if isinstance(s, TensorSpec)}
    assert shapes["x"] == ("batch_size", "features")
    assert shapes["state_linear_weight"] == ("out", "features")
    assert problem.outputs[0].shape == ("batch_size", "out")
    assert {s.name for s in problem.inputs if isinstance(s.domain, Opaque)} == shapes.keys() - {"x"}
    sources = problem.workloads[0].sources
    assert {sources[name] for name in shapes} == {CustomSource()}
    assert sources["built_out"] == ScalarSource(value=24)
    rule = problem.workloads[0].tolerance
    assert rule is not None
    assert rule.required_matched_ratio == 1.0


def test_its_state_is_the_models_own_and_its_generator_follows_the_axes(tmp_path: Path) -> None:
    file = foreign.kernelbench(tmp_path)
    problem = load_problem(str(file))
    loaded = load_reference(problem)
    assert loaded.generator is not None
    sizes = {"batch_size": 5, "features": 32, "out": 24}
    made = loaded.generator({**sizes}, torch.device("cpu"))
    again = loaded.generator({**sizes}, torch.device("cpu"))
    assert isinstance(made["x"], torch.Tensor)
    assert made["x"].shape == (5, 32)
    assert torch.equal(made["state_linear_weight"], again["state_linear_weight"])  # type: ignore[arg-type]
    before = made["state_bn_running_mean"].clone()  # type: ignore[attr-defined]
    loaded.call(*made.values(), 32, 24)
    assert torch.equal(made["state_bn_running_mean"], before)  # type: ignore[arg-type]


def test_a_size_that_a_kernelbench_reference_refuses_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fake tensors, which torch loads for a second, would be refused as those without memory."""

    def on_fakes(call: Callable[[], object]) -> object:
        raise AssertionError("asked again on fake tensors")

    monkeypatch.setattr(dispatch_modes, "on_fakes", on_fakes)
    refusing = "def forward(self, x):\n        assert x.shape[0] % 4 == 0, 'rows'"
    text = foreign.KERNELBENCH.replace("def forward(self, x):", refusing)
    loaded = load_reference(load_problem(str(trees.write(tmp_path / "1_Rows.py", text))))
    assert loaded.generator is not None
    made = loaded.generator({"batch_size": 6, "features": 32, "out": 24}, torch.device("meta"))
    with pytest.raises(AssertionError, match="rows"):
        without_memory(lambda: loaded.call(*made.values(), 32, 24))


def test_kernelbench_kernels_are_judged(tmp_path: Path, gate: Gate) -> None:
    problem = load_problem(str(foreign.kernelbench(tmp_path)))
    good = trees.write(tmp_path / "good.py", foreign.MODEL_NEW)
    packed = trees.write(tmp_path / "packed.py", foreign.PACKED)
    shaped = trees.write(  # its bias has axes of 1, and the reference's has none
        tmp_path / "shaped.py",
        foreign.MODEL_NEW.replace("torch.randn(out)", "torch.randn(1, out)").replace(
            " + self.bias", " + self.bias[0]"
        ),
    )
    bug = trees.write(tmp_path / "1_bug.py", foreign.MODEL_NEW.replace(" + self.bias", ""))
    assert _codes(gate, problem, good) == set()
    assert _codes(gate, problem, packed) == set()
    assert _codes(gate, problem, shaped) == set()
    assert "NUM001" in _codes(gate, problem, bug)


def test_a_reference_may_call_a_function_of_its_own_that_is_named_run(tmp_path: Path) -> None:
    text = foreign.KERNELBENCH.replace(" + self.bias", " + run(self.bias)")
    helper = "\n\ndef run(bias):\n    return 2 * bias\n"
    loaded = load_reference(load_problem(str(trees.write(tmp_path / "1_Helper.py", text + helper))))
    plain = load_reference(load_problem(str(foreign.kernelbench(tmp_path))))
    assert loaded.generator is not None
    sizes = {"batch_size": 5, "features": 32, "out": 24}
    made = loaded.generator({**sizes}, torch.device("cpu"))
    bias = made["state_bias"]
    given = (*made.values(), 32, 24)
    torch.testing.assert_close(loaded.call(*given), plain.call(*given) + bias)  # type: ignore[operator]

    folder = foreign.gpumode(tmp_path)
    task = (folder / "reference.py").read_text()
    (folder / "reference.py").write_text(task.replace("= a + b *", "= run(a) + b *") + helper)
    reference = load_reference(load_problem(str(folder)))
    drawn = reference.generator({"size": 7}, torch.device("cpu"))  # type: ignore[misc]
    assert isinstance(reference.call(*drawn.values()), torch.Tensor)


@pytest.mark.parametrize(
    ("text", "kernel", "inputs"),
    [
        (
            foreign.STRUCTURED,
            foreign.STRUCTURED_NEW,
            ["xs_0", "xs_1", "carry_bias", "carry_more_0", "eps"],
        ),
        (
            foreign.BY_NAME,
            foreign.BY_NAME_NEW,
            ["x0_bias", "x0_more_0", "x1_0", "x1_1", "x2"],
        ),
    ],
)
def test_kernelbench_calls_of_any_structure_are_judged(
    text: str, kernel: str, inputs: list[str], tmp_path: Path, gate: Gate
) -> None:
    notes: list[str] = []
    problem = load_problem(str(trees.write(tmp_path / "1_Structured.py", text)), notes=notes)
    ours = ["state_gain", "built_width", "state_source"]
    assert [spec.name for spec in problem.inputs] == [*inputs, *ours]
    assert [spec.name for spec in problem.outputs] == ["output", "output1", "output2"]
    assert problem.held == (("mask = None", "mode = 'sum'") if "xs_0" in inputs else ())
    assert len(notes) >= bool(problem.held)
    unique = "named" if "x2" in inputs else "placed"  # modules are imported once in this process
    good = trees.write(tmp_path / f"{unique}_good.py", kernel)
    bug = trees.write(tmp_path / f"{unique}_bug.py", kernel.replace("[0] + 1)", "[0])"))
    assert _codes(gate, problem, good) == set()
    assert "NUM001" in _codes(gate, problem, bug)


def test_kernelbench_mistakes_are_one_message(tmp_path: Path) -> None:
    problem = load_problem(str(foreign.kernelbench(tmp_path)))
    with pytest.raises(CandidateError, match="neither 'ModelNew' nor 'Model'"):
        load_candidate(str(trees.write(tmp_path / "k.py", "def run(x): ...\n")), problem)
    text = foreign.KERNELBENCH.replace("return [features, out]", "return [torch.zeros(1), out]")
    with pytest.raises(ProblemError, match="expected numbers, texts"):
        load_problem(str(trees.write(tmp_path / "tensor.py", text)))
    text = foreign.KERNELBENCH.replace("self.bn(self.linear(x))", "self.bn(x.tolist())")
    with pytest.raises(ProblemError, match="cannot be run on shapes alone"):
        load_problem(str(trees.write(tmp_path / "data.py", text)))


def test_a_gpumode_task_is_taken_apart(tmp_path: Path) -> None:
    problem = load_problem(str(foreign.gpumode(tmp_path)))
    assert problem.axes == (
        VarAxis(name="size"),
        ExprAxis(name="d0", expression="size + 8"),
    )
    assert [spec.name for spec in problem.inputs] == ["data0", "data1", "data2", "data3"]
    assert [w.axes["size"] for w in problem.workloads] == [24, 48, 64]
    rule = problem.workloads[0].tolerance
    assert rule is not None
    assert rule.atol == 2e-3
    assert "task" not in sys.modules  # nothing of it is left behind
    made = load_reference(problem).generator({"size": 7}, torch.device("cpu"))  # type: ignore[misc]
    assert isinstance(made["data1"], torch.Tensor)
    assert made["data1"].shape == (7, 15)


def test_gpumode_submissions_are_judged(tmp_path: Path, gate: Gate) -> None:
    folder = foreign.gpumode(tmp_path)
    problem = load_problem(str(folder))
    good = trees.write(folder / "submission.py", foreign.SUBMISSION)
    text = foreign.SUBMISSION.replace(', alpha=config["scale"]', "")
    bug = trees.write(folder / "submission_bug.py", text)
    assert _codes(gate, problem, good) == set()
    assert "NUM001" in _codes(gate, problem, bug)


_INTO = "    out[...] = a + b * config["
_KEEPS = """
kept = []
def custom_kernel(data):
    config, (a, b), out = data
    kept.append(out)
    torch.add(a, b, alpha=config["scale"], out=kept[0][: len(a)])
    return kept[0][: len(a)]
"""


def test_memory_for_a_gpumode_answer_is_new_in_every_call(tmp_path: Path, gate: Gate) -> None:
    folder = foreign.gpumode(tmp_path)
    text = foreign.TASK_REFERENCE.replace(_INTO, "    return a + b * config[")
    (folder / "reference.py").write_text(text)
    problem = load_problem(str(folder))
    good = trees.write(folder / "submission.py", foreign.SUBMISSION)
    bug = trees.write(folder / "submission_keeps.py", foreign.SUBMISSION + _KEEPS)
    checks = ("API001", "API002", "STATE001", "NUM001")
    assert gate.judge(problem, good, seed=3, only=checks).codes == ()
    assert gate.judge(problem, bug, seed=3, only=checks).rejected


def test_a_gpumode_reference_in_float64_says_nothing_of_the_answers_dtype(
    tmp_path: Path, gate: Gate
) -> None:
    folder = foreign.gpumode(tmp_path)
    text = foreign.TASK_REFERENCE.replace(_INTO, "    return a.double() + b.double() * config[")
    (folder / "reference.py").write_text(text)
    problem = load_problem(str(folder))
    assert [spec.dtype for spec in problem.outputs] == [DType.FLOAT16]
    texts = {
        "right": foreign.SUBMISSION,
        "wide": foreign.SUBMISSION.replace("return out", "return out.double()"),
        "wrong": foreign.SUBMISSION.replace("return out", "return out + 1e-2"),
    }
    files = {name: trees.write(folder / f"{name}.py", text) for name, text in texts.items()}
    found = {name: _codes(gate, problem, file) for name, file in files.items()}
    assert (found["right"], found["wide"]) == (set(), set())
    assert "NUM001" in found["wrong"]


def test_a_gpumode_task_may_use_modules_of_other_tasks(tmp_path: Path) -> None:
    folder = foreign.gpumode(tmp_path)
    (tmp_path / "shared").mkdir()
    (tmp_path / "utils.py").rename(tmp_path / "shared" / "utils.py")
    text = (folder / "task.yml").read_text().replace("../utils.py", "../shared/utils.py")
    (folder / "task.yml").write_text(text)
    problem = load_problem(str(folder))
    good = trees.write(folder / "submission.py", foreign.SUBMISSION)
    made = load_candidate(str(good), problem)
    assert {source.path for source in made.sources} >= {"utils.py", "task.py"}


def test_a_gpumode_generator_may_look_at_numbers(tmp_path: Path) -> None:
    folder = foreign.gpumode(tmp_path)
    text = (folder / "reference.py").read_text()
    text = text.replace('"scale": 0.5', '"scale": 0.5 + abs(torch.zeros(1).sum().item())')
    (folder / "reference.py").write_text(text)
    assert load_problem(str(folder)).axes[0] == VarAxis(name="size")


def test_a_number_of_gpumode_data_that_is_a_size_follows_it(tmp_path: Path) -> None:
    folder = foreign.gpumode(tmp_path)
    text = (folder / "reference.py").read_text()
    (folder / "reference.py").write_text(text.replace('"scale": 0.5', '"scale": 0.5, "n": size'))
    found = {spec.description: spec for spec in load_problem(str(folder)).inputs}
    assert found["data[0]['n']"].domain == SizeOf(axis="size")
    assert found["data[0]['scale']"].domain == Choice(values=(0.5,))
    assert found["data[1][1]"].name == "data3"


def test_a_kernel_to_start_from_has_the_form_that_its_format_wants(tmp_path: Path) -> None:
    task = problem_document(load_problem(str(foreign.gpumode(tmp_path))), "float64", "")
    assert "def custom_kernel(data):" in task["template"]
    assert task["reference"]["text"].startswith("def ref_kernel(data")
    module = problem_document(load_problem(str(foreign.kernelbench(tmp_path))), "float64", "")
    assert "class ModelNew(torch.nn.Module):" in module["template"]
    assert any(line.strip().startswith("def forward(self, x") for line in module["template"])
    assert module["reference"]["text"].startswith("class Model(")


def test_a_gpumode_task_may_move_tensors_to_the_gpu_by_name(tmp_path: Path) -> None:
    folder = foreign.gpumode(tmp_path)
    text = (folder / "reference.py").read_text()
    (folder / "reference.py").write_text(text.replace("= a + b *", "= a.cuda() + b *"))
    reference = load_reference(load_problem(str(folder)))
    made = reference.generator({"size": 7}, torch.device("cpu"))  # type: ignore[misc]
    assert isinstance(reference.call(*made.values()), torch.Tensor)


def test_a_large_gpumode_task_that_needs_data_is_learnt_at_smaller_sizes(tmp_path: Path) -> None:
    folder = foreign.gpumode(tmp_path)
    text = (folder / "reference.py").read_text()
    counts = "out = data\n    (a[0] > 0).long().bincount()"
    (folder / "reference.py").write_text(text.replace("out = data", counts))
    task = (folder / "task.yml").read_text()
    (folder / "task.yml").write_text(task.replace("24", "4096").replace("48", "6144"))
    problem = load_problem(str(folder))
    assert problem.axes[0] == VarAxis(name="size")
    assert [w.axes["size"] for w in problem.workloads] == [4096, 6144, 64]


def test_gpumode_mistakes_are_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = foreign.gpumode(tmp_path)
    problem = load_problem(str(folder))
    with pytest.raises(CandidateError, match="defines no 'custom_kernel'"):
        load_candidate(str(trees.write(folder / "submission.py", "x = 1\n")), problem)
    reference = (folder / "reference.py").read_text()
    trees.write(folder / "reference.py", reference.replace("generate_input", "generate_inputs"))
    with pytest.raises(ProblemError, match=r"reference\.py defines no 'generate_input'"):
        load_problem(str(folder))
    trees.write(folder / "task.yml", "files: [\n")
    with pytest.raises(ProblemError, match="not valid YAML"):
        load_problem(str(folder))
    trees.write(folder / "task.yml", "lang: py\nfiles: []\n")
    with pytest.raises(ProblemError, match=r"no reference\.py"):
        load_problem(str(folder))
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingToolError, match=r"pip install 'cuassay\[gpumode\]'"):
        load_problem(str(folder))


def test_a_flashinfer_data_set_is_read_and_judged(tmp_path: Path, gate: Gate) -> None:
    problem = load_problem(str(foreign.flashinfer(tmp_path)))
    assert problem.origin == "flashinfer-trace"
    assert [w.id for w in problem.workloads] == ["w3", "w64"]
    folder = tmp_path / "solutions" / "model-z" / "elementwise" / "scale_h8"
    good = foreign.flashinfer_solution(folder / "s1.json", "def run(x):\n    return x + x\n")
    into = foreign.flashinfer_solution(folder / "s2.json", "def run(x, y):\n    y.copy_(x + x)\n")
    named = foreign.flashinfer_solution(
        folder / "s4.json",
        "def run(x, out):\n    out.copy_(x + x)\n",
        dependencies=None,
        build_commands=[],
    )
    assert load_candidate(str(named), problem).convention is Convention.DESTINATION
    assert _codes(gate, problem, named) == set()
    bug = foreign.flashinfer_solution(folder / "s3.json", "def run(x):\n    return x * 2.01\n")
    assert load_candidate(str(good), problem).convention is Convention.RETURNS
    assert load_candidate(str(into), problem).convention is Convention.DESTINATION
    assert load_candidate(str(good), problem).author == "model-z"
    assert _codes(gate, problem, good) == _codes(gate, problem, into) == set()
    assert "NUM001" in _codes(gate, problem, bug)


def test_flashinfer_mistakes_are_one_message(tmp_path: Path) -> None:
    file = foreign.flashinfer(tmp_path)
    problem = load_problem(str(file))
    bound = foreign.flashinfer_solution(tmp_path / "b.json", "int x;", language="cuda")
    with pytest.raises(CandidateError, match="bound by tvm-ffi, which cuassay does not build"):
        load_candidate(str(bound), problem)
    unknown = foreign.flashinfer_solution(tmp_path / "u.json", "x", language="rust")
    with pytest.raises(CandidateError, match=r"spec\.language is 'rust'"):
        load_candidate(str(unknown), problem)
    (tmp_path / "workloads" / "elementwise" / "scale_h8.jsonl").unlink()
    with pytest.raises(ProblemError, match="a definition needs its workloads"):
        load_problem(str(file))


def test_a_kernel_tree_of_the_hub_is_read_and_judged(tmp_path: Path, gate: Gate) -> None:
    trees.native(tmp_path / "p")
    problem = load_problem(str(tmp_path / "p"))
    package = tmp_path / "kernel" / "build" / "torch-universal" / "doubling"
    trees.write(package / "__init__.py", "from .ops import wrong, right as run\n")
    trees.write(
        package / "ops.py",
        "def right(x):\n    return x + x\ndef wrong(x):\n    return x + x + 1e-3\n",
    )
    candidate = load_candidate(str(tmp_path / "kernel"), problem)
    assert {source.path for source in candidate.sources} == {
        "cuassay_entry.py",
        "doubling/__init__.py",
        "doubling/ops.py",
    }
    assert _codes(gate, problem, tmp_path / "kernel") == set()
    assert "NUM001" in _codes(gate, problem, f"{tmp_path / 'kernel'}::wrong")
    with pytest.raises(CandidateError, match=r"binds no 'rigth' \(it binds: run, wrong\)"):
        load_candidate(f"{tmp_path / 'kernel'}::rigth", problem)


def test_a_built_kernel_is_known_by_its_files(tmp_path: Path) -> None:
    trees.native(tmp_path / "p")
    problem = load_problem(str(tmp_path / "p"))
    package = tmp_path / "kernel" / "build" / "torch-universal" / "built_one"
    trees.write(package / "__init__.py", "def run(x):\n    return x + x\n")
    library = trees.write(package / "_ops.abi3.so", "binary")
    candidate = load_candidate(str(tmp_path / "kernel"), problem)
    before = candidate.sources
    place = tmp_path / "shim.py"
    place.write_text(before[0].text)
    spec = importlib.util.spec_from_file_location("shim", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.run(2) == 4
    library.write_text("another")
    with pytest.raises(ImportError, match="changed after the candidate's digest"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert load_candidate(str(tmp_path / "kernel"), problem).sources != before


def test_hub_mistakes_are_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.native(tmp_path / "p")
    problem = load_problem(str(tmp_path / "p"))
    with pytest.raises(CandidateError, match="expected hub:OWNER/REPO"):
        load_candidate("hub:nothing", problem)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingToolError, match=r"pip install 'cuassay\[hub\]'"):
        load_candidate("hub:owner/repo", problem)
    (tmp_path / "old" / "build" / "torch11-cxx11-cu80-x86_64-linux").mkdir(parents=True)
    with pytest.raises(CandidateError, match="is not built for torch"):
        load_candidate(str(tmp_path / "old"), problem)


def test_custom_operators_are_read_and_judged(tmp_path: Path, gate: Gate) -> None:
    trees.native(tmp_path / "p")
    problem = load_problem(str(tmp_path / "p"))
    file = trees.write(tmp_path / "ops.py", foreign.CUSTOM_OP)
    assert _codes(gate, problem, f"{file}::torch.ops.cuassay_test.twice") == set()
    text = foreign.CUSTOM_OP.replace("cuassay_test", "cuassay_test2")
    file = trees.write(tmp_path / "more_ops.py", text)
    assert "NUM001" in _codes(gate, problem, f"{file}::torch.ops.cuassay_test2.thrice")
    with pytest.raises(CandidateError, match="did you mean 'cuassay_test2::twice'"):
        load_candidate(f"{file}::torch.ops.cuassay_test2.twic", problem)
