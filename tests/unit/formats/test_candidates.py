"""Candidates are read as text: which file, entry, convention and flags; what mistakes say."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuassay.errors import CandidateError, ProblemError
from cuassay.formats import load_candidate, load_problem
from cuassay.model.candidate import BuildFlags, Convention, Language
from cuassay.model.problem import Problem

DATA = Path(__file__).parents[2] / "data" / "formats"
KERNELS = DATA / "kernels"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def problem() -> Problem:
    return load_problem(str(DATA / "affine_rows"))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return Path(shutil.copytree(KERNELS / "bundle", tmp_path / "bundle"))


def edit_solution(folder: Path, edit: Callable[[Json], object]) -> None:
    data = json.loads((folder / "solution.json").read_text())
    edit(data)
    (folder / "solution.json").write_text(json.dumps(data))


def python(tmp_path: Path, source: str) -> str:
    file = tmp_path / "mine.py"
    file.write_text(source)
    return str(file)


def test_a_bare_python_file(problem: Problem) -> None:
    candidate = load_candidate(str(KERNELS / "plain.py"), problem)
    assert candidate.language is Language.PYTHON
    assert candidate.convention is Convention.RETURNS
    assert (candidate.name, candidate.entry_file, candidate.entry_function) == (
        "plain",
        "plain.py",
        "run",
    )
    assert [source.path for source in candidate.sources] == ["plain.py"]
    assert candidate.origin == KERNELS / "plain.py"


def test_a_folder_ships_all_its_sources(problem: Problem) -> None:
    candidate = load_candidate(str(KERNELS / "whole"), problem)
    assert candidate.name == "whole"
    assert [source.path for source in candidate.sources] == ["kernel.py", "parts.py"]


def test_a_problem_folder_never_ships_its_reference(problem: Problem, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(DATA / "affine_rows", tmp_path / "p"))
    shutil.copy(KERNELS / "plain.py", folder / "kernel.py")
    candidate = load_candidate(str(folder), problem)
    assert [source.path for source in candidate.sources] == ["kernel.py"]


def test_candidate_code_is_never_run(problem: Problem, tmp_path: Path) -> None:
    source = "raise SystemExit('executed')\ndef run(x, shift, bias, gain): pass\n"
    assert load_candidate(python(tmp_path, source), problem).entry_function == "run"


@pytest.mark.parametrize(
    ("source", "entry", "convention"),
    [
        ("def other(x, shift, bias, gain): pass", "other", Convention.RETURNS),
        ("def a(u, v, w, z): pass\ndef _b(): pass", "a", Convention.RETURNS),
        ("def a(x): pass\ndef affine_rows(x, shift, bias, gain): pass", "affine_rows", "returns"),
        ("def a(x): pass\ndef b(x, shift, bias, gain): pass", "b", Convention.RETURNS),
        ("def run(x, shift, bias, gain, y, z): pass", "run", Convention.DESTINATION),
        ("def run(x, shift, bias, gain=1.0): pass", "run", Convention.RETURNS),
        ("def run(*tensors): pass", "run", Convention.RETURNS),
        ("from torch import relu as run", "run", Convention.RETURNS),
        ("class K: ...\nrun = K()", "run", Convention.RETURNS),
        ("@wrapped\ndef run(anything): pass", "run", Convention.RETURNS),
        ("@torch.no_grad()\ndef run(x, shift, bias, gain, y, z): pass", "run", "destination"),
        ("def run(:", "run", Convention.RETURNS),
    ],
)
def test_entry_and_convention(
    problem: Problem, tmp_path: Path, source: str, entry: str, convention: str
) -> None:
    candidate = load_candidate(python(tmp_path, source), problem)
    assert (candidate.entry_function, candidate.convention) == (entry, convention)


def test_an_entry_may_be_named(problem: Problem, tmp_path: Path) -> None:
    source = "def run(): pass\ndef second(x, shift, bias, gain): pass"
    candidate = load_candidate(python(tmp_path, source) + "::second", problem)
    assert candidate.entry_function == "second"


@pytest.mark.parametrize(
    ("source", "suffix", "message"),
    [
        ("def run(x): pass", "", r"'run\(x\)' do not match .*expected 'def run\(x, shift, bias, g"),
        ("def run(x): pass", "", r"or 'def run\(x, shift, bias, gain, y, z\)' writing into them"),
        (
            "def run(x, shift, bias, gain, z, y): pass",
            "",
            r"do not match the problem 'affine_rows'",
        ),
        ("def run(x, shift, bias, gain, *, k): pass", "", r"do not match"),
        ("async def run(x, shift, bias, gain): pass", "", r"is async, expected a plain def"),
        ("def a(x): pass\ndef b(y): pass", "", r"no entry function.*public functions: a\(x\), b"),
        ("x = 1", "", r"its public functions: none"),
        ("", "", r"mine\.py is empty, expected the kernel's source"),
        ("def second(x): pass", "::secnd", r"no function 'secnd': did you mean 'second'\?"),
        ("def second(x): pass", "::not a name", r"'not a name' is no function name"),
    ],
)
def test_bad_python(
    problem: Problem, tmp_path: Path, source: str, suffix: str, message: str
) -> None:
    with pytest.raises(CandidateError, match=message):
        load_candidate(python(tmp_path, source) + suffix, problem)


def test_solution_with_sources_beside_the_file(problem: Problem) -> None:
    candidate = load_candidate(str(KERNELS / "bundle" / "solution.json"), problem)
    assert (candidate.name, candidate.author) == ("bundle_affine", "fixture")
    assert [source.path for source in candidate.sources] == ["main.py", "lib/parts.py"]
    assert candidate.sources[0].text == (KERNELS / "bundle" / "main.py").read_text()
    assert candidate.convention is Convention.DESTINATION
    assert candidate.flags == BuildFlags()
    assert load_candidate(str(KERNELS / "bundle"), problem) == candidate


def test_solution_returning_style(problem: Problem, bundle: Path) -> None:
    def edit(data: Json) -> None:
        data["spec"]["destination_passing_style"] = False
        data["sources"][0]["content"] = "def run(x, shift, bias, gain): return x, x"

    edit_solution(bundle, edit)
    assert load_candidate(str(bundle), problem).convention is Convention.RETURNS


def _extension(data: Json) -> None:
    data["spec"] |= {
        "languages": ["cuda_cpp", "cutlass"],
        "entry_point": "main.cu::affine",
        "binding": "torch",
        "compile_options": {"cflags": ["-O2"]},
    }
    content = 'PYBIND11_MODULE(X, m) { m.def("affine", &affine); }'
    data["sources"] = [{"path": "main.cu", "content": content}]


def test_solution_in_cuda_with_default_flags(problem: Problem, bundle: Path) -> None:
    edit_solution(bundle, _extension)
    candidate = load_candidate(str(bundle), problem)
    assert candidate.language is Language.CUDA_EXTENSION
    assert candidate.entry_function == "affine"
    assert candidate.flags == BuildFlags(
        cflags=("-O2",), cuda_cflags=("-O3", "--use_fast_math"), ld_flags=("-lcuda",)
    )


def test_a_solution_of_mixed_languages_is_in_that_of_its_entry_point(
    problem: Problem, bundle: Path
) -> None:
    notes: list[str] = []
    edit_solution(bundle, _spec(languages=["cuda_cpp", "triton"]))
    candidate = load_candidate(str(bundle), problem, notes=notes)
    assert candidate.language is Language.PYTHON

    def edit(data: Json) -> None:
        _extension(data)
        data["spec"]["languages"] = ["pytorch", "cuda_cpp"]

    edit_solution(bundle, edit)
    candidate = load_candidate(str(bundle), problem, notes=notes)
    assert candidate.language is Language.CUDA_EXTENSION
    assert ["mixes" in note for note in notes] == [True, True]


def _spec(**changes: object) -> Callable[[Json], object]:
    return lambda data: data["spec"].update(changes)


def _source(**changes: object) -> Callable[[Json], object]:
    return lambda data: data["sources"][0].update(changes)


BAD_SOLUTIONS: list[tuple[Callable[[Json], object], str]] = [
    (lambda d: d.update(nam="x"), r"unknown key 'nam': did you mean 'name'\?"),
    (lambda d: d.pop("author"), r"author is missing: add it"),
    (lambda d: d.update(definition="affine"), r"definition is 'affine', but the problem is 'aff"),
    (lambda d: d.update(sources=[]), r"sources: expected .*at least 1 item"),
    (_spec(language="triton"), r"'spec\.language': did you mean 'languages', a list\?"),
    (_spec(languages=[]), r"spec\.languages: expected .*at least 1 item"),
    (_spec(languages=["tritn"]), r"unknown language: did you mean 'triton'\?"),
    (_spec(languages=["triton", "cuda_cpp"]), r"mixes 'triton' with 'cuda_cpp'"),
    (_spec(target_hardware=["local"]), r"unknown hardware: did you mean 'LOCAL'\?"),
    (_spec(target_hardware=[]), r"target_hardware: expected"),
    (_spec(binding="tvm"), r"spec\.binding: expected 'torch', got the string \"tvm\""),
    (_spec(entry_point="main.py"), r"expected FILE::FUNCTION, such as 'kernel\.py::run'"),
    (_spec(entry_point="main.py::a::b"), r"expected FILE::FUNCTION"),
    (_spec(entry_point="man.py::run"), r"'man\.py' is not among the sources: did you mean 'main"),
    (_spec(entry_point="main.py::rum"), r"no function 'rum': did you mean 'run'\?"),
    (_spec(destination_passing_style=False), r"the 4 arguments that destination_passing_style = f"),
    (_spec(compile_options={"cuda_flags": []}), r"compile_options\.cuda_flags': did you mean 'cu"),
    (_source(path="../main.py"), r"leaves the candidate's folder"),
    (_source(path="/main.py"), r"leaves the candidate's folder"),
    (lambda d: d["sources"][1].update(path="./main.py"), r"stands twice; keep one"),
    (_source(path="gone.py"), r"has no content and .*gone\.py does not exist; fill in"),
    (_spec(languages=["cuda_cpp"]), r"'main\.py' does not fit the languages"),
]


@pytest.mark.parametrize(("edit", "message"), BAD_SOLUTIONS)
def test_bad_solutions(
    problem: Problem, bundle: Path, edit: Callable[[Json], object], message: str
) -> None:
    edit_solution(bundle, edit)
    with pytest.raises(CandidateError, match=message) as caught:
        load_candidate(str(bundle), problem, strict=True)
    assert str(bundle / "solution.json") in str(caught.value)


def test_solutions_with_unknown_keys_keep_notes(problem: Problem, bundle: Path) -> None:
    def edit(data: Json) -> None:
        data |= {"definition": "another", "tag": 1}

    edit_solution(bundle, edit)
    notes: list[str] = []
    assert load_candidate(str(bundle), problem, notes=notes).name == "bundle_affine"
    assert len(notes) == 2


def test_solution_for_a_native_twin_may_keep_its_definition(problem: Problem) -> None:
    twin = replace(problem, name="affine", origin="native")
    assert load_candidate(str(KERNELS / "bundle"), twin).name == "bundle_affine"


def test_unknown_exported_function(problem: Problem, bundle: Path) -> None:
    def edit(data: Json) -> None:
        _extension(data)
        data["spec"]["entry_point"] = "main.cu::afine"

    edit_solution(bundle, edit)
    with pytest.raises(CandidateError, match=r"unknown exported function 'afine': did you mean"):
        load_candidate(str(bundle), problem)


def test_a_definition_is_no_solution_and_the_other_way_round(problem: Problem) -> None:
    with pytest.raises(CandidateError, match="looks like a problem's definition; give it with"):
        load_candidate(str(DATA / "affine_rows" / "definition.json"), problem)
    with pytest.raises(ProblemError, match="looks like a solution; give it as the kernel"):
        load_problem(str(KERNELS / "bundle" / "solution.json"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.py", r"gone\.py does not exist: expected a readable file"),
        ("gone", r"gone does not exist\. Give a \.py file, a \.cu file"),
        ("empty", r"empty holds no candidate \(it holds: nothing\)"),
        ("a.txt", r"a\.txt is not a candidate\. Give a \.py file"),
        ("binary.py", r"is a binary file"),
        ("pipe.py", r"pipe\.py is a device or a pipe: expected a readable file"),
        ("bad\0name", r"is not a candidate|does not exist"),
        ("solution.json::run", r"names its own entry in spec\.entry_point; drop '::run'"),
    ],
)
def test_what_is_no_candidate(problem: Problem, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "binary.py").write_bytes(b"\0")
    with pytest.raises(CandidateError, match=message):
        load_candidate(str(tmp_path / name), problem)


@pytest.mark.parametrize(
    ("first", "names"),
    [
        ("import triton", True),
        ("from liger_kernel.ops.geglu import geglu_forward", True),
        ("import torch", False),
    ],
)
def test_what_may_launch_triton_kernels(
    first: str, names: bool, problem: Problem, tmp_path: Path
) -> None:
    """Its own or a library's: on a CPU both run in the machine."""
    source = f"{first}\ndef run(x, shift, bias, gain): ...\n"
    assert load_candidate(python(tmp_path, source), problem).names_triton is names
