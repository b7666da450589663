"""Domains of foreign problems: what names, references and generators tell, and nothing more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from cuassay.formats import infer, load_problem
from cuassay.formats.describe import problem_document
from cuassay.model.domain import (
    Choice,
    Domain,
    IntegerRange,
    Mask,
    Offsets,
    Opaque,
    Positive,
    Probability,
    Real,
)
from cuassay.model.dtype import DType
from cuassay.model.problem import (
    Axis,
    ConstAxis,
    CustomSource,
    InputSource,
    InputSpec,
    Problem,
    RandomSource,
    Reference,
    Scalar,
    ScalarSource,
    ScalarSpec,
    TensorSpec,
    VarAxis,
    Workload,
)

DATA = Path(__file__).parents[2] / "data" / "formats"
AXES: tuple[Axis, ...] = (
    VarAxis(name="tokens"),
    VarAxis(name="total_len"),
    ConstAxis(name="hidden", value=8),
    ConstAxis(name="vocab", value=32),
    ConstAxis(name="num_experts", value=4),
)


def made(
    *inputs: InputSpec,
    body: str = "return None",
    outputs: Sequence[tuple[str, ...]] = (("tokens", "hidden"),),
    generator: str = "",
    sources: dict[str, InputSource] | None = None,
) -> Problem:
    """Return a problem whose reference has `body`, with its domains inferred."""
    names = ", ".join(spec.name for spec in inputs)
    source = f"def run({names}):\n    " + body.replace("\n", "\n    ") + "\n"
    if generator:
        source += "def gen(axes, device):\n    " + generator.replace("\n", "\n    ") + "\n"
    problem = Problem(
        name="p",
        axes=AXES,
        inputs=inputs,
        outputs=tuple(
            TensorSpec(name=f"o{i}", dtype=DType.FLOAT32, shape=shape, domain=Real())
            for i, shape in enumerate(outputs)
        ),
        reference=Reference(
            path=Path("reference.py"), source=source, generator="gen" if generator else None
        ),
        workloads=(
            Workload(
                id="a",
                axes={"tokens": 3, "total_len": 5},
                sources=sources or {spec.name: RandomSource() for spec in inputs},
            ),
        ),
        origin="sol-execbench",
    )
    return infer.with_domains(problem)


def real(name: str, *shape: str, description: str = "") -> TensorSpec:
    return TensorSpec(
        name=name,
        dtype=DType.FLOAT32,
        shape=shape or ("tokens", "hidden"),
        domain=Real(),
        description=description,
    )


def ints(name: str, *shape: str, dtype: DType = DType.INT64) -> TensorSpec:
    return TensorSpec(name=name, dtype=dtype, shape=shape or ("tokens",), domain=Real())


def domain(problem: Problem, name: str) -> Domain:
    return problem.input(name).domain


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (real("x"), Real()),
        (real("rstd", "tokens"), Positive()),
        (real("running_var"), Positive()),
        (real("norm2_weight", "hidden"), Real()),
        (real("router_probs"), Probability()),
        (real("attn_weights"), Probability()),
        (real("w", description="softmax output of the router"), Probability()),
        (real("rope_cos"), Real(low=-1.0, high=1.0)),
        (real("attention_mask", "tokens", "tokens"), Mask(kind="causal", additive=True)),
        (real("attention_mask", "tokens", "total_len"), Mask(kind="arbitrary", additive=True)),
        (real("dropout_mask"), Mask()),
        (real("key_padding_mask"), Mask(kind="padding")),
        (ints("keep", dtype=DType.BOOL), Mask()),
        (ints("token_mask", dtype=DType.INT32), Mask()),
        (ints("topk_expert_ids"), IntegerRange(low=-1024, high=1023)),
        (ints("cu_seqlens"), Offsets(axis="total_len")),
        (ints("codes"), IntegerRange(low=-1024, high=1023)),
        (ints("codes", dtype=DType.INT8), IntegerRange(low=-128, high=127)),
    ],
)
def test_names(spec: TensorSpec, expected: Domain) -> None:
    problem = made(spec)
    assert domain(problem, spec.name) == expected
    source = "default" if expected == Real() else "inferred"
    assert problem.inputs[0].domain_source == source


def test_integers_of_a_generator_without_evidence_stay_opaque() -> None:
    problem = made(ints("codes"), sources={"codes": CustomSource()})
    assert isinstance(domain(problem, "codes"), Opaque)


def test_state_space_names_need_an_exponential() -> None:
    assert domain(made(real("A"), body="return A.t()"), "A") == Real()
    assert domain(made(real("A"), body="return torch.exp(A)"), "A") == Real(low=-1.0, high=-0.01)


@pytest.mark.parametrize(
    ("name", "dtype", "value", "expected"),
    [
        ("eps", DType.FLOAT32, 1e-6, Real(low=1e-8, high=1e-2)),
        ("sm_scale", DType.FLOAT32, 0.5, Real(low=0.0625, high=4.0)),
        ("shift", DType.FLOAT32, -1.0, Real(low=-8.0, high=-0.125)),
        ("dropout_p", DType.FLOAT32, 0.0, Real(low=0.0, high=0.9)),
        ("offset", DType.FLOAT32, 0.0, Choice(values=(0.0,))),
        ("limit", DType.FLOAT32, float("-inf"), Choice(values=(float("-inf"),))),
        ("causal", DType.BOOL, True, Choice(values=(False, True))),
        ("groups", DType.INT32, 4, Choice(values=(4,))),
        ("step", DType.INT64, 3, IntegerRange(low=1, high=1000)),
    ],
)
def test_scalars(name: str, dtype: DType, value: Scalar, expected: Domain) -> None:
    spec = ScalarSpec(name=name, dtype=dtype, domain=Real())
    problem = made(spec, sources={name: ScalarSource(value=value)})
    found = problem.inputs[0]
    assert isinstance(found, ScalarSpec)
    assert (found.domain, found.domain_source, found.default) == (expected, "inferred", value)


def test_the_document_of_a_problem_is_plain_json() -> None:
    problem = load_problem(str(DATA / "affine_rows"))
    document = problem_document(problem, "float64", "every operation was lifted")
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert (document["name"], document["truth"]) == ("affine_rows", "float64")
    assert document["truth_reason"] == "every operation was lifted"
    assert document["axes"][1] == {
        "name": "width",
        "description": "",
        "kind": "const",
        "value": 8,
    }
    assert [axis["kind"] for axis in document["axes"]] == ["var", "const", "expr", "expr"]
    assert document["inputs"][0]["shape"] == ["rows", "width"]
    assert document["inputs"][3]["kind"] == "scalar"
    assert document["domains"]["gain"] == {
        "type": "Real",
        "low": 0.0625,
        "high": 16.0,
        "also": [],
        "numbers_of": "",
        "structure": "general",
        "source": "inferred",
        "words": "real in [0.0625, 16.0]",
    }
    assert document["workloads"][0]["axes"] == {"rows": 3, "width": 8, "half": 4, "double": 16}
    assert document["tolerance"]["required_matched_ratio"] == 0.95
