"""Native problems, names of problems, and references as callables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch

from cuassay.catalog import registry
from cuassay.errors import ProblemError, ReferenceError_, UnknownNameError
from cuassay.formats import load_problem
from cuassay.formats.execute import load_reference
from cuassay.formats.native.declaration import problem, problem_of, scalar, tensor
from cuassay.model.domain import Choice, Index, IntegerRange, Real
from cuassay.model.problem import (
    ConstAxis,
    CustomSource,
    ExprAxis,
    ScalarSource,
    VarAxis,
)

DATA = Path(__file__).parents[3] / "data" / "formats"
NATIVE = str(DATA / "native.py")


@pytest.fixture(autouse=True)
def _private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))


def test_axes_specs_and_workloads() -> None:
    made = load_problem(f"{NATIVE}:stretched")
    assert made.axes == (
        VarAxis(name="rows", minimum=1, maximum=64, declared=True),
        VarAxis(name="width", minimum=4, maximum=64, multiple_of=4, declared=True),
        ExprAxis(name="twice", expression="2 * width"),
        ConstAxis(name="fixed", value=3),
    )
    assert [spec.name for spec in made.inputs] == ["x", "gain"]
    assert made.input("gain").domain == Real(low=0.25, high=4.0)
    assert made.input("gain").domain_source == "declared"
    assert [(spec.name, spec.shape) for spec in made.outputs] == [
        ("y", ("rows", "twice")),
        ("total", ()),
    ]
    assert made.workloads[0].sources["gain"] == ScalarSource(value=1.0)
    assert made.workloads[1].sources["gain"] == ScalarSource(value=0.5)
    assert made.reduction_axes == ("width",)
    assert made.growth_target == {"width": 4096}
    assert made.description == "Repeat each row after itself."
    assert (made.origin, len(made.digest)) == ("native", 64)


def test_generator_and_index_inputs() -> None:
    made = load_problem(f"{NATIVE}:counted")
    assert made.reference.generator == "draw_rows"
    assert set(made.workloads[0].sources.values()) == {CustomSource()}
    assert made.index_inputs == {"ids": ("output",)}
    loaded = load_reference(made)
    assert loaded.generator is not None
    drawn = loaded.generator({"rows": 6}, "cpu")
    got = loaded.call(drawn["ids"], torch.ones(6))
    assert isinstance(got, torch.Tensor)
    assert got.tolist() == [6.0, 0.0, 0.0, 0.0, 0.0]


def test_a_file_with_one_problem_needs_no_name(tmp_path: Path) -> None:
    source = Path(NATIVE).read_text().split("def draw_rows")[0]
    file = tmp_path / "single.py"
    file.write_text(source)
    assert load_problem(str(file)).name == "stretched"
    (tmp_path / "problem.py").write_text(source)
    assert load_problem(str(tmp_path)).name == "stretched"


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "single.py"
    source = Path(NATIVE).read_text().split("def draw_rows")[0]
    file.write_text(source)
    first = load_problem(str(file))
    file.write_text(source.replace("* gain", "* gain + 1"))
    second = load_problem(str(file))
    assert first.digest != second.digest


def test_module_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cuassay_fixture_module.py").write_text(Path(NATIVE).read_text())
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_problem("cuassay_fixture_module:counted").name == "counted"


def test_catalogue_names() -> None:
    name = registry.names()[0]
    made = load_problem(name)
    assert made.name == name
    assert callable(load_reference(made).call)


@pytest.mark.parametrize(
    ("where", "kind", "message"),
    [
        ("rmsnrm", UnknownNameError, r"unknown problem 'rmsnrm': did you mean 'rmsnorm'\?"),
        (NATIVE, UnknownNameError, r"known: stretched, counted\).*name one as native\.py:FUNCTION"),
        (f"{NATIVE}:strechted", UnknownNameError, r"did you mean 'stretched'\?"),
        (f"{NATIVE}:plain", ProblemError, r"'plain' in .* is not decorated with @problem"),
        ("no_such_module_here:f", ProblemError, r"module 'no_such_module_here' cannot be imported"),
        ("json:dumps", ProblemError, r"'dumps' in module json is not decorated"),
        ("json:dump_it", UnknownNameError, r"unknown function 'dump_it'.*in module json"),
        ("gone/definition.json", ProblemError, r"gone/definition\.json does not exist: expected"),
        ("gone.py:f", ProblemError, r"gone\.py does not exist"),
        ("", ProblemError, r"the problem's name is empty"),
        ("a\0b/c", ProblemError, r"does not exist"),
        (str(DATA), ProblemError, r"problem\.py, task\.yml or reference\.py \(it holds: aff"),
        (str(DATA / "kernels" / "raw.cu"), ProblemError, r"expected a \.json or \.py file"),
        (str(DATA / "kernels" / "plain.py"), ProblemError, r"no @problem function \(its func"),
    ],
)
def test_unknown_problems(where: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        load_problem(where)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(:", r"line 1: not valid Python"),
        ("x = 1 / 0", r"ZeroDivisionError: division by zero \(line 1\); correct it"),
        ("import nowhere_to_be_found", r"ModuleNotFoundError: .*nowhere_to_be_found"),
        ("raise SystemExit(3)", r"SystemExit: 3"),
    ],
)
def test_native_files_that_do_not_run(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "p.py").write_text(source)
    with pytest.raises((ProblemError, ReferenceError_), match=message):
        load_problem(str(tmp_path / "p.py"))


X = Annotated[torch.Tensor, tensor("float32", "n")]
AXES: Mapping[str, Any] = {"n": (1, 64)}


def declared(function: Callable[..., Any], **changes: Any) -> None:
    problem(**{"axes": AXES, "workloads": [{"n": 2}], **changes})(function)


def good(x: X) -> X:
    return x


def test_the_decorated_function_stays_callable() -> None:
    declared(good)
    made = problem_of(good)
    assert made is not None
    assert [spec.name for spec in made.outputs] == ["output"]
    assert load_reference(made).call is good
    assert good(torch.ones(2)).tolist() == [1.0, 1.0]
    assert problem_of(len) is None


def no_annotation(x) -> X:  # type: ignore[no-untyped-def]
    return x  # type: ignore[no-any-return]


def bare_tensor(x: torch.Tensor) -> X:
    return x


def no_return(x: X):  # type: ignore[no-untyped-def]
    return x


def scalar_return(x: X) -> Annotated[float, scalar("float32")]:
    return float(x.sum())


def empty_return(x: X) -> tuple[()]:
    return ()


def wrong_type(x: Annotated[float, tensor("float32", "n")]) -> X:
    return torch.tensor(x)


def wrong_scalar(x: X, k: Annotated[int, scalar("float32")]) -> X:
    return x * k


def two_specs(x: Annotated[torch.Tensor, tensor("float32"), tensor("float32")]) -> X:
    return x


def unbounded_ids(x: Annotated[torch.Tensor, tensor("int64", "n")]) -> X:
    return x


def unknown_axis(x: Annotated[torch.Tensor, tensor("float32", "m")]) -> X:
    return x


def number_like_an_axis(x: X, n: Annotated[int, scalar("int32", choices=[1, 2])]) -> X:
    return x * n


def unknown_domain(
    x: Annotated[torch.Tensor, tensor("int64", "n", domain=Index(axis="vocab"))],
) -> X:
    return x


def same_name(x: X) -> Annotated[torch.Tensor, tensor("float32", "n", name="x")]:
    return x


def renamed(x: Annotated[torch.Tensor, tensor("float32", "n", name="y")]) -> X:
    return x


def undefined(x: Nowhere) -> X:  # type: ignore[name-defined]  # noqa: F821
    return torch.ones(1)


@pytest.mark.parametrize(
    ("function", "changes", "message"),
    [
        (no_annotation, {}, r"parameter 'x' has no annotation, expected Annotated\[torch\.Tens"),
        (bare_tensor, {}, r"parameter 'x' is annotated as Tensor, expected Annotated"),
        (no_return, {}, r"the return has no annotation, expected -> Annotated"),
        (scalar_return, {}, r"return value is a scalar\(\.\.\.\), expected tensor"),
        (empty_return, {}, r"empty tuple; return at least one tensor"),
        (wrong_type, {}, r"annotated as float with tensor\(\.\.\.\), expected torch\.Tensor"),
        (wrong_scalar, {}, r"annotated as int with scalar\('float32'\), expected float"),
        (two_specs, {}, r"holds 2 tensor\(\.\.\.\) or scalar\(\.\.\.\), expected exactly one"),
        (unbounded_ids, {}, r"an integer tensor has no natural range; declare its domain"),
        (unknown_axis, {}, r"the shape of 'x': unknown axis 'm'"),
        (unknown_domain, {}, r"the domain of 'x': unknown axis 'vocab'"),
        (same_name, {}, r"the name 'x' is used twice; rename an output"),
        (renamed, {}, r"name='y'\) differs from the parameter's name"),
        (undefined, {}, r"annotations cannot be evaluated: name 'Nowhere' is not defined"),
        (good, {"axes": {"n": 0}}, r"axes\['n'\] is 0, expected a form such as 4096"),
        (good, {"axes": {"n": (5, 2)}}, r"no size lies in \[5, 2\]"),
        (good, {"axes": {"n": (5, 7, 4)}}, r"no size lies in \[5, 7\] and is a multiple of 4"),
        (good, {"axes": {"n": "m * 2"}}, r"axes\['n'\]: unknown axis 'm'"),
        (good, {"axes": {"n": "2 *"}}, r"'2 \*' is no axis, size or expression"),
        (good, {"axes": {"n": (1, 8), "x": 2}}, r"'x' names an axis and a tensor"),
        (number_like_an_axis, {}, r"'n' names an axis and a number; .* size_of='n'\) if it is"),
        (good, {"axes": {"n": {0, 8}}}, r"is \{0, 8\}, expected sizes of 1 or more in a set"),
        (good, {"workloads": []}, r"workloads is empty; give at least one"),
        (good, {"workloads": [{}]}, r"workloads\[0\] gives axis 'n' no size; add 'n': SIZE"),
        (good, {"workloads": [{"n": 65}]}, r"workloads\[0\]\['n'\] is 65, expected .*\[1, 64\]"),
        (good, {"workloads": [{"n": 2.0}]}, r"\['n'\] is 2\.0, expected an integer size"),
        (good, {"workloads": [{"n": 2, "m": 1}]}, r"workloads\[0\]: unknown axis 'm'"),
        (good, {"reduction_axes": ["m"]}, r"unknown reduction axis 'm'"),
        (good, {"index_inputs": {"y": []}}, r"unknown index input 'y'"),
        (good, {"index_inputs": {"x": ["y"]}}, r"unknown output 'y' \(known: output\)"),
        (good, {"growth_target": {"n": 0}}, r"growth_target\['n'\] is 0, expected 1 or more"),
        (good, {"accumulation": "float23"}, r"unknown dtype 'float23': did you mean 'float32'"),
        (good, {"generator": Path.cwd}, r"generator 'Path\.cwd' is defined in"),
    ],
)
def test_bad_declarations(
    function: Callable[..., Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises((ProblemError, UnknownNameError), match=message):
        declared(function, **changes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tensor("float33", "n"), r"unknown dtype 'float33': did you mean 'float32'"),
        (lambda: tensor("float32", 0), r"dimension 0 is below 1"),
        (lambda: tensor("float32", 1.5), r"dimension 1\.5 is a float, expected an axis name"),  # type: ignore[arg-type]
        (lambda: scalar("float32", low=2, high=1), r"low 2 is above high 1; swap them"),
        (lambda: scalar("float32", low=float("nan")), r"a bound is NaN"),
        (lambda: scalar("int32"), r"expected two integers or choices=\[\.\.\.\]"),
        (
            lambda: scalar("int32", low=0.5, high=2),
            r"bounds are low=0\.5, high=2, expected two int",
        ),
        (lambda: scalar("int32", choices=[]), r"choices is empty"),
        (lambda: scalar("int32", choices=[1], low=1), r"either choices or low and high, not both"),
        (lambda: scalar("float32", low=0, high=1, default=2), r"default 2 lies outside \[0, 1\]"),
        (lambda: scalar("float32", choices=[1.0], default=2), r"lies outside the choices 1\.0"),
    ],
)
def test_bad_specs(make: Callable[[], object], message: str) -> None:
    with pytest.raises((ProblemError, UnknownNameError), match=message):
        make()


def test_scalar_domains() -> None:
    assert scalar("bool").domain == Choice(values=(False, True))
    assert scalar("int32", low=1, high=4).domain == IntegerRange(low=1, high=4)
    assert scalar("float16", choices=[1, 2]).domain == Choice(values=(1, 2))


def test_reference_of_a_foreign_problem_runs() -> None:
    loaded = load_reference(load_problem(str(DATA / "affine_rows")))
    assert loaded.generator is None
    got = loaded.call(torch.ones(2, 8).bfloat16(), torch.zeros(8), torch.tensor(1.0), 3.0)
    assert isinstance(got, tuple)
    assert got[0].tolist() == [[3.0] * 8] * 2
    assert got[1].tolist() == [[8.0], [8.0]]


SCATTER = DATA / "scatter_rows" / "definition.json"


def foreign(tmp_path: Path, old: str, new: str) -> str:
    """Return a copy of the scatter problem with `old` replaced in its JSON text."""
    text = SCATTER.read_text()
    assert old in text
    (tmp_path / "definition.json").write_text(text.replace(old, new))
    workload = (SCATTER.parent / "workload.jsonl").read_text()
    (tmp_path / "workload.jsonl").write_text(workload)
    return str(tmp_path)


def test_reference_that_does_not_import(tmp_path: Path) -> None:
    made = load_problem(foreign(tmp_path, "import torch\\n", "import torch, nowhere_at_all\\n"))
    with pytest.raises(ReferenceError_, match=r"nowhere_at_all.*\(line 1\); correct it"):
        load_reference(made)


def test_reference_whose_function_vanishes(tmp_path: Path) -> None:
    made = load_problem(foreign(tmp_path, "return table\\n", "return table\\n\\ndel run\\n"))
    with pytest.raises(ProblemError, match=r"defines no function 'run' when it is run"):
        load_reference(made)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (
            "raise RuntimeError('no luck')",
            r"'make_inputs' .* raised RuntimeError: no luck \(line 8\)",
        ),
        ("return [ids]", r"returned a list, expected a dict from input name to value"),
        ("return {'ids': ids}", r"returned no value for values; expected a dict with every input"),
    ],
)
def test_generators_that_fail(tmp_path: Path, new: str, message: str) -> None:
    old = 'ids = torch.randint(0, slots, (rows,), device=device)\\n    return {\\"values\\": '
    rest = "torch.randn(rows, width, device=device), "
    made = load_problem(
        foreign(
            tmp_path,
            old + rest + '\\"ids\\": ids}',
            f"ids = torch.zeros(rows)\\n    {new}",
        )
    )
    generator = load_reference(made).generator
    assert generator is not None
    with pytest.raises(ReferenceError_, match=message):
        generator({"rows": 3, "width": 4, "slots": 16}, "cpu")


def test_a_vanished_reference_file(tmp_path: Path) -> None:
    made = load_problem(foreign(tmp_path, "import torch", "import torch  # another"))
    made.reference.path.unlink()
    with pytest.raises(ReferenceError_, match=r"which is gone; load the problem again"):
        load_reference(made)
