"""The page on what servers pass: its example runs, and every line of its table is a declaration."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Annotated

import pytest
import torch

from cuassay.errors import ProblemError
from cuassay.formats import load_problem
from cuassay.formats.domain_rules import KINDS, check_domain
from cuassay.formats.execute import load_reference
from cuassay.formats.native.declaration import problem, problem_of, scalar, tensor
from cuassay.inputs.materialise import materialise
from cuassay.inputs.outside import outside
from cuassay.inputs.plan import plan_cases
from cuassay.model import domain
from cuassay.model.device import CPU
from cuassay.model.domain import Index, Lengths, Mask, Offsets, Packed, SizeOf, Swizzled
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.model.verdict import Profile

PAGE = Path(__file__).parents[4] / "docs" / "problems.md"
TEXT = PAGE.read_text(encoding="utf-8")
SECTION = TEXT[TEXT.index("## What servers pass") : TEXT.index("## Domains and bounds beside")]
EXAMPLE = re.findall(r"```python\n(# decode\.py\n.*?)```", SECTION, re.DOTALL)[0]
SIDECAR = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)[0]
_DOMAIN = "Index|Lengths|Offsets|Mask|Packed|Positive|Swizzled"
ROWS = re.findall(rf"^\|[^|]+\| `((?:{_DOMAIN})\(.*?\))` \|", SECTION, re.MULTILINE)


@pytest.fixture(autouse=True)
def _private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("sidecar", ["", SIDECAR])
def test_the_example_runs_at_every_planned_size(tmp_path: Path, sidecar: str) -> None:
    file = tmp_path / "decode.py"
    file.write_text(EXAMPLE, encoding="utf-8")
    if sidecar:
        (tmp_path / "decode.cuassay.toml").write_text(sidecar, encoding="utf-8")
    made = load_problem(str(file))
    call = load_reference(made).call
    open_ = set()
    for case in plan_cases(made, "small", profile=Profile.QUICK, root_seed=3):
        values = materialise(made, case, device=CPU)
        y = call(*values.values())
        assert isinstance(y, torch.Tensor)
        assert bool(y.isfinite().all())
        open_ |= set(outside(made, values, case.axes))
    assert open_ == {"table"}
    cache = made.input("cache")
    assert isinstance(cache, TensorSpec)
    assert cache.stale
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_the_table_shows_every_domain_of_servers() -> None:
    made = [eval(row, vars(domain)) for row in ROWS]
    assert {type(one) for one in made} >= {Index, Lengths, Offsets, Mask, Packed, Swizzled}
    assert all(type(one) in KINDS for one in made)
    for one in made:
        shape = ("ends",) if isinstance(one, Offsets) else ("rows", "slots")
        dtype = DType.FLOAT32 if isinstance(one, domain.Positive | Swizzled) else DType.INT32
        check_domain(TensorSpec(name="x", dtype=dtype, shape=shape, domain=one), where="page")


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (Index(axis="pages", lengths="n"), "lengths: .*'n'"),
        (
            Index(axis="pages", lengths="x"),
            r"lengths names 'x', float32\[rows\]; expected integers",
        ),
        (
            Index(axis="pages", lengths="other"),
            r"names 'other', int32\[pages\]; expected integers of the shape \[rows\]",
        ),
        (Index(axis="pages", per=0), "per is 0, expected 1 or more"),
        (Lengths(axis="slots", page=0), "page is 0, expected 1 or more"),
        (Lengths(axis="slots", low=-1), "low is -1, expected 0 or more"),
        (Lengths(axis="slotz"), "slotz"),
        (Packed(bits=3), "bits is 3, which do not fill 'table', int32"),
        (Packed(bits=4, high=16), "codes of 4 bits lie from 0 to 15; got 0 to 16"),
        (Swizzled(rows="rows", columns="slots", layout="4x128"), "layout of scales"),
        (Swizzled(rows="rowz", columns="slots", low=1, high=9), "rowz"),
        (
            Mask(kind="causal", lengths="lengths"),
            "a causal mask has no lengths; use kind='padding'",
        ),
    ],
)
def test_mistakes_in_a_declaration_are_one_message(declared: domain.Domain, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        declare(declared)


def declare(of_table: domain.Domain) -> None:
    """Declare a problem whose table has a domain."""

    def wrong(x, table, lengths, other):  # type: ignore[no-untyped-def]
        return x

    wrong.__annotations__ = {
        "x": Annotated[torch.Tensor, tensor("float32", "rows")],
        "table": Annotated[torch.Tensor, tensor("int32", "rows", "slots", domain=of_table)],
        "lengths": Annotated[torch.Tensor, tensor("int32", "rows", domain=Lengths(axis="slots"))],
        "other": Annotated[torch.Tensor, tensor("int32", "pages", domain=Lengths(axis="slots"))],
        "return": Annotated[torch.Tensor, tensor("float32", "rows", name="y")],
    }
    problem(
        axes={"rows": (1, 8), "slots": (1, 8), "pages": (1, 8)},
        workloads=({"rows": 2, "slots": 2, "pages": 2},),
    )(wrong)


def taken(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "k")],
    count: Annotated[int, scalar("int32", size_of="k")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "k", name="y")]:
    return x[:, :count]


def test_a_size_may_be_an_argument_and_nothing_else_says_it() -> None:
    made = problem_of(
        problem(axes={"rows": (1, 8), "k": (1, 8)}, workloads=({"rows": 2, "k": 3},))(taken)
    )
    assert made is not None
    assert made.input("count").domain == SizeOf(axis="k")
    for case in plan_cases(made, "shapes", profile=Profile.QUICK, root_seed=1):
        assert materialise(made, case, device=CPU)["count"] == case.axes["k"]
    with pytest.raises(ProblemError, match="expected an integer dtype and nothing else"):
        scalar("int32", size_of="k", low=1, high=2)
    with pytest.raises(ProblemError, match="stale is for inputs"):
        tensor("float32", "k", out=True, stale=True)
