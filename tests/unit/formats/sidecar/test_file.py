"""A sidecar file overrides domains and bounds; a mistake in it is one message."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cuassay.errors import ProblemError
from cuassay.formats import load_problem
from cuassay.formats.describe import problem_document
from cuassay.model import serial
from cuassay.model.digest import problem_digest
from cuassay.model.domain import Choice, Index, IntegerRange, Mask, Opaque, Positive, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, VarAxis
from cuassay.model.stated import FactKind
from tests.unit.contract.problems import rotary

_ROOT = Path(__file__).resolve().parents[4]
DATA = _ROOT / "tests" / "data" / "formats"


@pytest.fixture(autouse=True)
def _private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "affine_rows", tmp_path / "affine_rows"))


@pytest.fixture
def scatter(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "scatter_rows", tmp_path / "scatter_rows"))


@pytest.fixture
def native(tmp_path: Path) -> Path:
    return Path(shutil.copy(DATA / "native.py", tmp_path / "native.py"))


def _with(folder: Path, text: str, *, notes: list[str] | None = None) -> Problem:
    (folder / "cuassay.toml").write_text(text)
    return load_problem(str(folder), notes=notes)


def _axis(problem: Problem, name: str) -> VarAxis:
    return {axis.name: axis for axis in problem.var_axes()}[name]


def test_domains_and_bounds_are_overridden_and_say_by_what(folder: Path) -> None:
    before = load_problem(str(folder))
    notes: list[str] = []
    text = """
        accumulation = "bfloat16"
        growth_target.rows = 100_000
        [domains.x]
        kind = "positive"
        low = 0.5
        [domains.gain]
        kind = "choice"
        values = [2.0, 0.5]
        [axes.rows]
        min = 1
        max = 64
    """
    problem = _with(folder, text, notes=notes)
    assert problem.input("x").domain == Positive(low=0.5)
    assert problem.input("gain").domain == Choice(values=(2.0, 0.5))
    sources = {spec.name: spec.domain_source for spec in problem.inputs}
    assert sources["x"] == sources["gain"] == "sidecar cuassay.toml"
    assert sources["shift"] == before.input("shift").domain_source
    assert _axis(problem, "rows") == VarAxis(
        name="rows",
        maximum=64,
        declared=True,
        bounds_source="sidecar cuassay.toml",
        description="independent rows",
    )
    assert problem.accumulation is DType.BFLOAT16
    assert problem.growth_target == {"rows": 100_000}
    assert notes[-1] == (
        "cuassay.toml overrides domains.x, domains.gain, accumulation, growth_target, axes.rows"
    )


def test_the_digest_and_the_stored_problem_hold_the_override(folder: Path) -> None:
    before = load_problem(str(folder))
    after = _with(folder, 'domains.x = { kind = "real", low = 0 }')
    assert after.digest == problem_digest(after) != before.digest
    assert serial.loads(Problem, serial.dumps(after)) == after


def test_the_document_says_where_each_domain_comes_from(folder: Path) -> None:
    text = 'domains.x = { kind = "real" }\naxes.rows = { max = 64 }'
    document = problem_document(_with(folder, text), "float64", "")
    sources = {name: domain["source"] for name, domain in document["domains"].items()}
    assert sources == {
        "x": "sidecar cuassay.toml", "shift": "default", "bias": "default", "gain": "inferred",
    }  # fmt: skip
    rows = document["axes"][0]
    # Only both ends promise every size between them.
    assert (rows["source"], rows["maximum"], rows["declared"]) == (
        "sidecar cuassay.toml", 64, False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["definition.json", "workload.jsonl"])
def test_a_file_of_the_folder_means_the_folder(folder: Path, name: str) -> None:
    _with(folder, 'domains.x = { kind = "positive" }')
    assert load_problem(str(folder / name)).input("x").domain == Positive()


def test_an_axis_may_have_listed_sizes_alone(folder: Path) -> None:
    listed = _with(folder, "axes.rows = { sizes = [40, 3, 40] }")
    rows = _axis(listed, "rows")
    assert (rows.sizes, rows.minimum, rows.maximum, rows.declared) == ((3, 40), 3, 40, True)
    problem = _with(folder, 'domains.x = { kind = "real", also = ["-inf"], low = 0.0 }')
    assert problem.input("x").domain == Real(low=0.0, also=("-inf",))


def test_a_single_file_has_its_own_sidecar(native: Path) -> None:
    native.with_suffix(".cuassay.toml").write_text("axes.rows = { max = 32 }")
    for name in ("counted", "stretched"):
        problem = load_problem(f"{native}:{name}")
        assert _axis(problem, "rows").maximum == 32
        assert _axis(problem, "rows").declared


def test_the_sidecar_wins_over_what_a_native_problem_declares(native: Path) -> None:
    text = 'domains.ids = { kind = "index", axis = "slots", sentinels = [-1] }'
    native.with_name("native.counted.cuassay.toml").write_text(text)
    ids = load_problem(f"{native}:counted").input("ids")
    assert ids.domain == Index(axis="slots", sentinels=(-1,))
    assert ids.domain_source == "sidecar native.counted.cuassay.toml"
    load_problem(f"{native}:stretched")  # which has no input of that name


def test_two_sidecars_for_one_problem_are_a_mistake(native: Path) -> None:
    for name in ("native.cuassay.toml", "native.counted.cuassay.toml"):
        native.with_name(name).write_text("")
    with pytest.raises(ProblemError, match=r"both for native\.py; keep one of them"):
        load_problem(f"{native}:counted")


def test_a_folder_file_beside_a_single_file_is_said_to_be_unread(native: Path) -> None:
    native.with_name("cuassay.toml").write_text("nonsense")
    notes: list[str] = []
    load_problem(f"{native}:counted", notes=notes)
    assert notes == ["cuassay.toml is not read: for native.py the name is native.cuassay.toml"]


def test_a_link_that_leads_nowhere_is_a_mistake(folder: Path) -> None:
    (folder / "cuassay.toml").symlink_to(folder / "absent.toml")
    with pytest.raises(ProblemError, match=r"cuassay\.toml does not exist: expected a readable"):
        load_problem(str(folder))


def test_an_empty_file_says_so(folder: Path) -> None:
    notes: list[str] = []
    assert _with(folder, "# nothing yet", notes=notes).inputs
    assert notes[-1] == "cuassay.toml overrides nothing: it is empty"


def test_unknown_keys_are_refused_however_the_problem_is_read(folder: Path) -> None:
    (folder / "cuassay.toml").write_text('domains.x = { kind = "real", lo = 1 }')
    with pytest.raises(ProblemError, match="unknown key 'lo': did you mean 'low'"):
        load_problem(str(folder))


@pytest.mark.parametrize(
    ("text", "domain", "addressed"),
    [
        ('kind = "index"\naxis = "slots"\nunique = false', Index(axis="slots"), ("table",)),
        ('kind = "index"\naxis = "slots * 2"', Index(axis="slots * 2"), ()),
        ('kind = "integer_range"\nlow = 0\nhigh = 3', IntegerRange(low=0, high=3), ()),
        ('kind = "mask"\npattern = "padding"', Mask(kind="padding"), ()),
        ('kind = "opaque"', Opaque(why="the sidecar says so"), ()),
    ],
)
def test_index_inputs_follow_the_domain(
    scatter: Path, text: str, domain: object, addressed: tuple[str, ...]
) -> None:
    problem = _with(scatter, f"[domains.ids]\n{text}")
    assert problem.input("ids").domain == domain
    assert problem.index_inputs.get("ids", ()) == addressed


MISTAKES: list[tuple[str, str]] = [
    ("domain.x.kind = 'real'", r"unknown key 'domain': did you mean 'domains'\?"),
    ("axes.rows.minimum = 2", r"unknown key 'axes\.rows\.minimum': did you mean 'min'\?"),
    ("axes.rows.low = 2", r"'axes\.rows\.low': an axis's bound is called 'min'"),
    ("[domains.xx]\nkind = 'real'", r"domains: unknown input 'xx': did you mean 'x'\?"),
    ("[domains.y]\nkind = 'real'", r"unknown input 'y' \(known: x, shift, bias, gain\)"),
    ("[domains.x]\nlow = 1", r"domains\.x: kind is missing; expected one of real, positive"),
    ("[domains.x]\nkind = 3", r"domains\.x: kind is 3; expected one of real"),
    ("[domains.x]\nkind = 'rael'", r"domains\.x: unknown kind 'rael': did you mean 'real'\?"),
    ("domains.x = 'real'", r"domains\.x: expected an object, got the string \"real\""),
    ("[domains.x]\nkind = 'real'\nlo = 2", r"unknown key 'lo': did you mean 'low'\?"),
    ("[domains.x]\nkind = 'real'\nmin = 2", r"'min': a domain's bound is called 'low'"),
    ("[domains.x]\nkind = 'real'\nlow = 'a'", r"low: expected a valid number, got the string"),
    ("[domains.x]\nkind = 'real'\nlow = nan", r"low: expected a finite number, got .* nan"),
    ("[domains.x]\nkind = 'real'\nlow = 1979-05-27", r"got the date 1979-05-27"),
    ("[domains.x]\nkind = 'real'\nlow = 2\nhigh = 1", r"low 2\.0 is above high 1\.0; swap"),
    (
        "[domains.x]\nkind = 'real'\nlow = 1.001\nhigh = 1.002",
        r"no bfloat16 number is real in \[1\.001, 1\.002\]",
    ),
    ("[domains.shift]\nkind = 'real'\nlow = 1e39", r"no float32 number .*largest is 3\.4"),
    ("[domains.x]\nkind = 'positive'\nlow = 0", r"low is 0\.0, expected a number above 0"),
    (
        "[domains.x]\nkind = 'index'\naxis = 'width'",
        r"kind 'index' does not fit 'x', bfloat16\[rows, width\]; expected one of real",
    ),
    ("[domains.x]\nkind = 'probability'\naxis = 2", r"axis is 2, but 'x', .* has 2 dimensions"),
    ("[domains.x]\nkind = 'mask'\npattern = 'casual'", r"did you mean 'causal'\?"),
    ("[domains.shift]\nkind = 'mask'\npattern = 'causal'", r"expected two dimensions or more"),
    ("[domains.x]\nkind = 'opaque'", r"problem 'affine_rows' has none; state which values"),
    ("[domains.gain]\nkind = 'mask'", r"does not fit the float32 scalar 'gain'"),
    (
        "[domains.gain]\nkind = 'real'\nlow = 0\nhigh = 1",
        r"workload 'small' has gain = 2\.0, which is not real in \[0\.0, 1\.0\]; widen",
    ),
    ("[domains.gain]\nkind = 'choice'\nvalues = []", r"values is empty; list at least one"),
    ("[domains.gain]\nkind = 'choice'\nvalues = [2, true]", r"True is no value of the float32"),
    ("[axes.row]\nmin = 1", r"axes: unknown axis 'row': did you mean 'rows'\?"),
    ("[axes.width]\nmin = 1", r"axes\.width: the axis is always 8, expected one that workloads"),
    ("[axes.half]\nmin = 1", r"axes\.half: the axis is always width // 2"),
    ("[axes.rows]\nmin = 8\nmax = 4", r"no size lies in \[8, 4\]"),
    ("[axes.rows]\nmin = 3\nmax = 40\nmultiple_of = 64", r"and is a multiple of 64; expected"),
    ("[axes.rows]\nsizes = [3]", r"rows = 40, outside one of 3; widen the bounds, or change"),
    ("[axes.rows]\nsizes = [3]\nmax = 9", r"sizes stand alone; leave min, max and multiple_of"),
    ("[axes.rows]\nmax = 20", r"workload 'large' has rows = 40, outside 1 to 20; widen"),
    ("[axes.rows]\nmultiple_of = 2", r"rows = 3, outside 1 to any size, multiples of 2"),
    ("[axes.rows]\nmin = -2", r"axes\.rows\.min: expected greater than or equal to 0"),
    ("[axes]\nrows = 3", r"axes\.rows: expected an object, got the number 3"),
    ("growth_target.row = 9", r"growth_target: unknown axis 'row': did you mean 'rows'\?"),
    ("growth_target.rows = 0", r"growth_target\.rows: expected greater than or equal to 1"),
    ("accumulation = 'float23'", r"accumulation: unknown dtype 'float23': did you mean 'float32'"),
    ("accumulation = 'int8'", r"unknown dtype 'int8' \(known: float64, float32"),
    ("a = [", r"not valid TOML: .*; correct it there"),
    ("x = " + "[" * 10_000, r"not valid TOML: maximum recursion depth"),
    ("\0", r"is a binary file"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_is_one_message_with_the_file(folder: Path, text: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message) as caught:
        _with(folder, text)
    assert str(caught.value).startswith(str(folder / "cuassay.toml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind = 'index'\naxis = 'slot'", r"axis: unknown axis 'slot': did you mean 'slots'\?"),
        ("kind = 'index'\naxis = 'slots - 16'", r"slots - 16 has size 0 there; name a longer"),
        ("kind = 'index'\naxis = 'width'\nunique = true", r"needs 12 distinct indices but width"),
        ("kind = 'index'\naxis = 'slots'\nsentinels = [1e3]", r"expected a valid integer"),
        (f"kind = 'index'\naxis = 'slots'\nsentinels = [{2**70}]", r"is no int64, which holds"),
        ("kind = 'integer_range'\nlow = 0", r"domains\.ids: high is missing: add it"),
        ("kind = 'mask'\nadditive = true", r"an additive mask does not fit 'ids'"),
    ],
)
def test_mistakes_of_integer_domains(scatter: Path, text: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        _with(scatter, f"[domains.ids]\n{text}")


def test_the_example_of_the_readme_fits_its_problem(tmp_path: Path) -> None:
    page = (_ROOT / "docs" / "problems.md").read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page, re.M | re.S)
    problem = next(text for kind, text in blocks if kind == "python" and "# scale.py" in text)
    (tmp_path / "scale.py").write_text(problem)
    sidecar = next(text for kind, text in blocks if kind == "toml" and "domains.x" in text)
    (tmp_path / "scale.cuassay.toml").write_text(sidecar)
    found = load_problem(str(tmp_path / "scale.py"))
    assert found.input("x").domain == Real(low=0.0)
    assert (_axis(found, "rows").minimum, _axis(found, "rows").multiple_of) == (8, 8)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[facts.z]\nsorted = true", "unknown input 'z'"),
        ("[facts.x]\nsorted = true", "has no generator"),
        ("[facts.x]\nfalling = true", "falling"),
    ],
)
def test_facts_that_nothing_keeps_are_mistakes(folder: Path, text: str, words: str) -> None:
    with pytest.raises(ProblemError, match=re.escape(words)):
        _with(folder, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[facts.position_ids]\nequal_along = ['rows']", "unknown axis 'rows'"),
        ("[facts.scale]\nsorted = true\n[domains.scale]\nkind = 'real'", "domains.scale as well"),
    ],
)
def test_facts_beside_a_generator_are_checked(tmp_path: Path, text: str, words: str) -> None:
    rotary(tmp_path)
    with pytest.raises(ProblemError, match=re.escape(words)):
        _with(tmp_path, text)


def test_inputs_with_stated_facts_come_from_the_generator(tmp_path: Path) -> None:
    rotary(tmp_path)
    notes: list[str] = []
    made = _with(tmp_path, "[facts.position_ids]\narange = true", notes=notes)
    assert isinstance(made.input("position_ids").domain, Opaque)
    assert [(fact.input, fact.kind) for fact in made.stated] == [("position_ids", FactKind.ARANGE)]
    assert "facts.position_ids" in notes[0]
    assert made.digest != load_problem(str(rotary(tmp_path / "plain").path)).digest
