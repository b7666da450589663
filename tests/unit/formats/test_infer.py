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
    Index,
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
        (ints("input_ids"), Index(axis="vocab")),
        (ints("topk_expert_ids"), Index(axis="num_experts")),
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


IDS, W = ints("i"), real("w", "vocab", "hidden")
VOCAB = Index(axis="vocab")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return F.embedding(i, w)", VOCAB),
        ("return torch.nn.functional.embedding(i.view(-1), w.float())", VOCAB),
        ("return w[i]", VOCAB),
        ("return w[:, i]", Index(axis="hidden")),
        ("flat = i.reshape(-1).long()\nreturn w[flat]", VOCAB),
        ("return w.index_select(1, i)", Index(axis="hidden")),
        ("return torch.gather(w, dim=-1, index=i)", Index(axis="hidden")),
        ("v, h = w.shape\ng = torch.zeros(v, h)\ng.index_add_(0, i, w)\nreturn g", VOCAB),
        ("g = torch.zeros_like(w)\ng.index_add_(0, i, w)\nreturn g", VOCAB),
        ("g = w.new_zeros((w.shape[0], 2))\nreturn g.scatter_add(0, i, w)", VOCAB),
        ("return F.one_hot(i, num_classes=w.size(0))", VOCAB),
        ("return F.one_hot(i, 7)", Index(axis="7")),
        ("return F.cross_entropy(w.T, i)", VOCAB),
        ("return F.cross_entropy(x @ w.t(), i)", VOCAB),
        ("logits = F.linear(x, w)\nreturn F.nll_loss(F.log_softmax(logits), i)", VOCAB),
        ("g = torch.zeros_like(w)\ng[i] = x\nreturn g", Index(axis="vocab", unique=True)),
        ("g = torch.zeros_like(w)\ng[i] = 1.0\nreturn g", VOCAB),
        (
            "g = torch.zeros_like(w)\ng.index_copy_(0, i, x)\nreturn g",
            Index(axis="vocab", unique=True),
        ),
        ("for b in range(3):\n    w[i[b]] += x[b]\nreturn w", Index(axis="vocab", unique=True)),
    ],
)
def test_what_the_reference_shows(body: str, expected: Domain) -> None:
    assert domain(made(IDS, W, real("x"), body=body), "i") == expected


@pytest.mark.parametrize(
    "body",
    [
        "return i + w",
        "j = i - 1\nreturn w[j]",
        "return unknown(w)[i]",
        "return w[mystery(i)]",
        "return (lambda i: w[i])(0)",
        "return w[..., i]",
    ],
)
def test_what_cannot_be_followed_is_not_guessed(body: str) -> None:
    assert domain(made(IDS, W, body=body), "i") == IntegerRange(low=-1024, high=1023)


def test_state_space_names_need_an_exponential() -> None:
    assert domain(made(real("A"), body="return A.t()"), "A") == Real()
    assert domain(made(real("A"), body="return torch.exp(A)"), "A") == Real(low=-1.0, high=-0.01)


def test_logarithms_and_roots_need_positive_numbers() -> None:
    problem = made(real("a"), real("b"), real("c"), body="return a.log() + torch.rsqrt(b + 1) + c")
    assert [spec.domain for spec in problem.inputs] == [Positive(), Positive(), Real()]


def test_ignored_labels_are_a_sentinel_only_where_the_source_says_so() -> None:
    body = "return F.cross_entropy(w.T, labels{})"
    labels = ints("labels")
    assert domain(made(labels, W, body=body.format("")), "labels") == VOCAB
    told = made(labels, W, body=body.format(", ignore_index=-100"))
    assert domain(told, "labels") == Index(axis="vocab", sentinels=(-100,))


def test_index_inputs_name_the_outputs_that_are_written_by_row() -> None:
    adds = "g = torch.zeros_like(w)\ng.index_add_(0, i, x)\nreturn g"
    outputs = [("vocab", "hidden"), ("hidden",)]
    problem = made(IDS, W, real("x"), body=adds, outputs=outputs)
    assert problem.index_inputs == {"i": ("o0",)}
    reads = made(IDS, W, real("x"), body="return w[i]", outputs=outputs)
    assert reads.index_inputs == {}


def test_a_literal_size_is_named_by_the_axis_of_the_output() -> None:
    body = "g = torch.zeros(32, 8)\ng.index_add_(0, i, w)\nreturn g"
    problem = made(IDS, W, body=body, outputs=[("vocab", "hidden")])
    assert (domain(problem, "i"), problem.index_inputs) == (VOCAB, {"i": ("o0",)})


@pytest.mark.parametrize(
    ("generator", "expected"),
    [
        ("return {'i': torch.randint(0, axes['vocab'], (3,))}", VOCAB),
        ("v = int(axes['vocab'])\nids = torch.randint(v, (3,)).long()\nreturn {'i': ids}", VOCAB),
        ("d = {}\nd['i'] = torch.randint(high=axes.get('vocab', 1), size=(3,))\nreturn d", VOCAB),
        ("return dict(i=torch.randperm(axes['vocab'])[:3])", None),
        ("return dict(i=torch.randperm(axes['vocab']))", Index(axis="vocab", unique=True)),
        ("return {'i': torch.randint(-3, 9, (3,))}", IntegerRange(low=-3, high=8)),
        ("return {'i': torch.randint(0, 2 * axes['hidden'], (3,))}", Index(axis="(2 * hidden)")),
        ("return {'i': torch.randint(0, unknown, (3,))}", None),
    ],
)
def test_what_the_generator_draws(generator: str, expected: Domain | None) -> None:
    problem = made(IDS, generator=generator, sources={"i": CustomSource()})
    if expected is None:
        assert isinstance(domain(problem, "i"), Opaque)
    else:
        assert domain(problem, "i") == expected


def test_floats_of_a_generator() -> None:
    draws = "w = torch.softmax(torch.randn(3), -1)\nreturn {'a': w, 'b': torch.randn(3).abs()}"
    problem = made(real("a"), real("b"), generator=draws)
    assert [spec.domain for spec in problem.inputs] == [Probability(), Positive()]


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


def test_a_real_problem_end_to_end() -> None:
    problem = load_problem(str(DATA / "scatter_rows"))
    assert domain(problem, "ids") == Index(axis="slots")
    assert problem.index_inputs == {"ids": ("table",)}


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
        "source": "inferred",
    }
    assert document["workloads"][0]["axes"] == {"rows": 3, "width": 8, "half": 4, "double": 16}
    assert document["tolerance"]["required_matched_ratio"] == 0.95
