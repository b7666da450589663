"""A set of sizes, rounded-up expressions, numbers that are not finite, and narrower numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch

from cuassay import domains
from cuassay.errors import ProblemError
from cuassay.formats.domain_rules import KINDS, check_domain, domain_words
from cuassay.formats.native.axes import read_axes
from cuassay.formats.native.declaration import problem, problem_of, scalar, tensor
from cuassay.inputs.materialise import materialise
from cuassay.inputs.plan import plan_cases
from cuassay.model.device import CPU
from cuassay.model.domain import Domain, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import ConstAxis, ExprAxis, Problem, TensorSpec, VarAxis
from cuassay.model.verdict import Profile


@problem(
    axes={"rows": (1, 4096), "width": {32, 64, 128}},
    workloads=[{"rows": 40, "width": 64}],
)
def scaled_softmax(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "width", domain=Real(also=("-inf",)))],
    scale: Annotated[
        torch.Tensor,
        tensor("float32", "ceil(rows / 16)", domain=Real(low=-2.0, numbers_of="bfloat16")),
    ],
    out: Annotated[torch.Tensor, tensor("float32", "ceil(rows / 16)", "width", out=True)],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "width", name="y")]:
    return torch.softmax(x, -1) * scale.repeat_interleave(16)[: x.shape[0], None]


@problem(axes={"rows": (1, 64), "groups": {2, 4}}, workloads=[{"rows": 40, "groups": 4}])
def of_groups(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "groups * 8")],
    groups: Annotated[int, scalar("int32", size_of="groups")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "groups", name="y")]:
    return x.reshape(x.shape[0], groups, -1).sum(-1)


def test_an_argument_may_have_the_name_of_the_axis_whose_size_it_is() -> None:
    made = problem_of(of_groups)
    assert made is not None
    assert made.workloads[0].axes == {"rows": 40, "groups": 4}
    cases = list(plan_cases(made, "small", profile=Profile.STANDARD, root_seed=5))
    assert {case.axes["groups"] for case in cases} == {2, 4}
    for case in cases:
        assert materialise(made, case, device=CPU)["groups"] == case.axes["groups"]


def _made() -> Problem:
    made = problem_of(scaled_softmax)
    assert made is not None
    return made


def test_cases_keep_to_the_sizes_and_hold_the_numbers_that_are_declared() -> None:
    infinite = 0
    cases = [
        case
        for purpose in ("small", "numeric", "shapes")
        for case in plan_cases(_made(), purpose, profile=Profile.STANDARD, root_seed=5)
    ]
    assert {case.axes["width"] for case in cases} == {32, 64, 128}
    for case in cases:
        values = materialise(_made(), case, device=CPU)
        x, scale = values["x"], values["scale"]
        assert isinstance(x, torch.Tensor)
        assert isinstance(scale, torch.Tensor)
        assert scale.shape == (math.ceil(case.axes["rows"] / 16),)
        assert torch.equal(scale, scale.bfloat16().float())
        assert float(scale.min()) >= -2.0
        assert bool(x[..., 0].isfinite().all())
        assert not bool(x.isnan().any())
        infinite += bool((x == -math.inf).any())
    assert 0 < infinite < len(cases)  # the plain cases come without


def test_memory_for_an_argument_to_be_filled_has_the_rounded_up_size() -> None:
    assert "__import__('math').ceil(x.shape[0] / 16)" in _made().entry or (
        "scale.shape[0]" in _made().entry
    )


def _declared(axes: dict[str, Any], *, size: int = 64) -> Callable[[], object]:
    def declare() -> object:
        @problem(axes=axes, workloads=[{"n": size}])
        def doubled(
            x: Annotated[torch.Tensor, tensor("float32", "n")],
        ) -> Annotated[torch.Tensor, tensor("float32", "n")]:
            return 2 * x

        return doubled

    return declare


def _bounded(domain: Domain, dtype: str = "float32") -> Callable[[], object]:
    spec = TensorSpec(name="x", dtype=DType(dtype), shape=("n",), domain=domain)
    return lambda: check_domain(spec, where="x")


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (_declared({"n": {32, 64}}, size=48), "is 48, expected one of 32, 64; change the workload"),
        (
            _declared({"n": {0, 64}}),
            "{0, 64}, expected sizes of 1 or more in a set; a range such as",
        ),
        (_declared({"n": set()}), "{32, 64, 128}"),
        (_declared({"n": [32, 64, 128]}), "{32, 64, 128} is a set of sizes"),
        (_declared({"n": (1, 64), "m": "ceil(k / 2)"}), "unknown axis 'k'"),
        (_bounded(Real(also=("-Inf",))), "did you mean '-inf'?"),
        (_bounded(Real(also=("nan",)), "float8_e4m3fn"), "expected a tensor of 16 bits or more"),
        (_bounded(Real(numbers_of="float64")), "a narrower dtype: float16, bfloat16"),
        (_bounded(Real(numbers_of="float16"), "float16"), "a narrower dtype:"),
        (_bounded(Real(low=7e4, numbers_of="float16")), "no float16 number lies in [70000.0, inf]"),
        (lambda: tensor("float32", "n", low=0.0), "write from cuassay import domains, and domain="),  # type: ignore[arg-type]
        (lambda: tensor("int32", "n", axis="n"), 'and domain=domains.Index(axis="...")'),  # type: ignore[arg-type]
        (lambda: tensor("int32", "n", inplace=True), "has no argument inplace=; write updated="),  # type: ignore[arg-type]
        (lambda: tensor("int32", "n", lo=0), "expected one of name, domain, out, updated, stale"),  # type: ignore[arg-type]
        (lambda: scalar("float32", domain=Real()), "has no argument domain=; write low=..., high="),  # type: ignore[arg-type]
        (lambda: scalar("int32", axis="n"), 'write size_of="..."'),  # type: ignore[arg-type]
    ],
)
def test_messages_name_what_to_write(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(ProblemError) as told:
        declare()
    assert message in str(told.value)


_PAGE = (Path(__file__).parents[4] / "docs" / "problems.md").read_text(encoding="utf-8")


def test_every_line_of_the_page_is_a_declaration() -> None:
    made = [eval(row) for row in re.findall(r"^\| `(domains\..*?)` \|", _PAGE, re.MULTILINE)]
    kinds = {type(one) for one in made}
    servers = {domains.Lengths, domains.Offsets, domains.Swizzled, domains.SizeOf, domains.Opaque}
    assert kinds == set(KINDS) - servers
    for one in made:
        real = isinstance(one, domains.Real | domains.Positive | domains.Probability)
        dtype = DType.FLOAT32 if real else DType.INT32
        check_domain(
            TensorSpec(name="x", dtype=dtype, shape=("n", "n"), domain=one), where=str(one)
        )
    forms = re.findall(r'^\| `("\w+": .*?)` \|', _PAGE, re.MULTILINE)
    axes = eval("{" + ", ".join(forms) + "}")
    made_axes = read_axes(axes, (), (), where="page")
    assert [type(axis) for axis in made_axes] == [VarAxis, VarAxis, VarAxis, ConstAxis, ExprAxis]


def test_a_domain_in_words() -> None:
    both = Real(low=0.0, also=("inf", "nan"), numbers_of="bfloat16")
    assert domain_words(both) == "real in [0.0, inf] of bfloat16 or inf or nan"
    assert domain_words(Real(also=("-inf",))) == "a finite number or -inf"


@pytest.mark.parametrize("name", ["-inf", "inf", "nan"])
@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16])
def test_every_number_stands_in_every_dtype(name: str, dtype: DType) -> None:
    from cuassay.inputs.fills import make
    from cuassay.model.case import ALSO, Fill

    spec = TensorSpec(name="x", dtype=dtype, shape=("r", "c"), domain=domains.Real(also=(name,)))
    fill = Fill(kind="normal", parameters={ALSO: name})
    made = make(spec, fill, sizes={"r": 30, "c": 40}, seed=2, device=CPU)
    wanted = made.isnan() if name == "nan" else made == float(name)
    assert torch.equal(wanted, ~made.isfinite())
    assert 0.15 < float(wanted.double().mean()) < 0.35
    assert not bool(wanted[:, 0].any())
