"""The benchmark's own inputs: sources, name rules, dtypes, and that nothing leaks."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from cuassay.errors import ReferenceError_
from cuassay.formats import load_problem
from cuassay.formats.execute import LoadedReference, load_reference
from cuassay.inputs.benchmark import draw
from cuassay.inputs.benchmark_rules import random_scalar, random_tensor
from cuassay.model.device import CPU
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import (
    Problem,
    RandomSource,
    SafetensorsSource,
    ScalarSource,
    ScalarSpec,
    TensorSpec,
)

DATA = Path(__file__).parents[2] / "data" / "formats"


@pytest.fixture(autouse=True)
def _private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))


def spec(name: str, *, dtype: DType = DType.FLOAT32, description: str = "") -> TensorSpec:
    return TensorSpec(name=name, dtype=dtype, shape=(), domain=Real(), description=description)


def tensor(
    name: str, *shape: int, dtype: DType = DType.FLOAT32, description: str = ""
) -> torch.Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return random_tensor(spec(name, dtype=dtype, description=description), shape, CPU)


def inputs(problem: Problem, *, seed: int = 200, workload: int = 0) -> Mapping[str, object]:
    return draw(
        problem,
        problem.workloads[workload],
        seed=seed,
        device=CPU,
        reference=load_reference(problem),
    )


def test_shapes_dtypes_and_order() -> None:
    got = inputs(load_problem(str(DATA / "affine_rows")))
    assert list(got) == ["x", "shift", "bias", "gain"]
    x, bias = got["x"], got["bias"]
    assert isinstance(x, torch.Tensor)
    assert isinstance(bias, torch.Tensor)
    assert (x.shape, x.dtype) == ((3, 8), torch.bfloat16)
    assert x.is_contiguous()
    assert bias.shape == ()
    assert got["gain"] == 2.0


def test_a_seed_repeats_and_global_state_is_restored() -> None:
    problem = load_problem(str(DATA / "affine_rows"))
    torch.manual_seed(5)
    random.seed(5)
    expected = torch.rand(3).tolist(), random.random()
    torch.manual_seed(5)
    random.seed(5)
    first, second, other = inputs(problem), inputs(problem), inputs(problem, seed=7)
    assert (torch.rand(3).tolist(), random.random()) == expected
    assert torch.equal(torch.as_tensor(first["x"]), torch.as_tensor(second["x"]))
    assert not torch.equal(torch.as_tensor(first["x"]), torch.as_tensor(other["x"]))


def test_custom_inputs_come_from_the_generator() -> None:
    got = inputs(load_problem(str(DATA / "scatter_rows")))
    ids = got["ids"]
    assert isinstance(ids, torch.Tensor)
    assert ids.shape == (12,)
    assert 0 <= int(ids.min()) <= int(ids.max()) < 16


def test_stored_tensors(tmp_path: Path) -> None:
    problem = load_problem(str(DATA / "affine_rows"))
    stored = torch.arange(8, dtype=torch.float32)
    file = tmp_path / "a.safetensors"
    safetensors.torch.save_file({"shift": stored}, file)

    def using(key: str, name: str) -> Problem:
        source = SafetensorsSource(path=str(file), key=key)
        sources = {**problem.workloads[0].sources, name: source}
        return replace(problem, workloads=(replace(problem.workloads[0], sources=sources),))

    assert torch.equal(torch.as_tensor(inputs(using("shift", "shift"))["shift"]), stored)
    with pytest.raises(ReferenceError_, match=r"tensor 'gone' of .* cannot be read"):
        inputs(using("gone", "shift"))
    with pytest.raises(ReferenceError_, match=r"'bias' has shape \[8\] and dtype .*expected \[\]"):
        inputs(using("shift", "bias"))


def test_a_scalar_descriptor_may_fill_a_0d_tensor() -> None:
    problem = load_problem(str(DATA / "affine_rows"))
    sources = {**problem.workloads[0].sources, "bias": ScalarSource(value=1.5)}
    changed = replace(problem, workloads=(replace(problem.workloads[0], sources=sources),))
    assert torch.equal(torch.as_tensor(inputs(changed)["bias"]), torch.tensor(1.5))


def test_native_problems_draw_within_their_domains() -> None:
    stretched = inputs(load_problem(f"{DATA / 'native.py'}:stretched"), workload=1)
    assert stretched["gain"] == 0.5
    assert torch.as_tensor(stretched["x"]).dtype is torch.bfloat16
    counted = inputs(load_problem(f"{DATA / 'native.py'}:counted"))
    assert torch.as_tensor(counted["ids"]).tolist() == [0] * 6
    assert torch.as_tensor(counted["values"]).shape == (6,)


def test_native_numbers_as_arguments_stay_in_their_domains() -> None:
    problem = load_problem("rmsnorm")
    eps = next(s for s in problem.inputs if isinstance(s, ScalarSpec))
    narrow = replace(eps, domain=Real(low=0.25, high=0.3), default=None)
    problem = replace(
        problem,
        inputs=tuple(narrow if s is eps else s for s in problem.inputs),
        workloads=(replace(problem.workloads[0], sources={}),),
    )
    drawn = [inputs(problem, seed=seed)[eps.name] for seed in range(8)]
    assert all(isinstance(value, float) and 0.25 <= value <= 0.3 for value in drawn)
    assert len(set(drawn)) > 1


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"values": 3, "ids": torch.zeros(12)}, r"'values' is a int, expected a torch\.Tensor"),
        ({"values": torch.zeros(12, 5)}, r"'values' has shape \[12, 5\].*expected \[12, 4\]"),
        ({"values": torch.zeros(12, 4).double()}, r"dtype torch\.float64, expected"),
    ],
)
def test_generators_that_make_something_else(made: dict[str, object], message: str) -> None:
    problem = load_problem(str(DATA / "scatter_rows"))
    reference = LoadedReference(call=len, generator=lambda axes, device: made)
    with pytest.raises(ReferenceError_, match=message):
        draw(problem, problem.workloads[0], seed=1, device=CPU, reference=reference)


def test_an_unused_generator_may_fail() -> None:
    problem = load_problem(str(DATA / "scatter_rows"))

    def broken(axes: object, device: object) -> Mapping[str, object]:
        raise ReferenceError_("broken")

    sources = dict.fromkeys(("values", "ids"), RandomSource())
    workload = replace(problem.workloads[0], sources=sources)
    reference = LoadedReference(call=len, generator=broken)
    got = draw(problem, workload, seed=1, device=CPU, reference=reference)
    assert torch.as_tensor(got["values"]).shape == (12, 4)
    with pytest.raises(ReferenceError_, match="broken"):
        draw(problem, problem.workloads[0], seed=1, device=CPU, reference=reference)


@pytest.mark.parametrize("name", ["norm_weight", "input_layernorm_weight", "norm2_weight"])
def test_norm_weights_are_ones(name: str) -> None:
    assert torch.equal(tensor(name, 6), torch.ones(6))


def test_norm_biases_are_zeros() -> None:
    assert torch.equal(tensor("norm_bias", 6), torch.zeros(6))


def test_causal_masks() -> None:
    got = tensor("attention_mask", 2, 3, 3, dtype=DType.BFLOAT16)
    lowest = torch.finfo(torch.bfloat16).min
    assert got.dtype is torch.bfloat16
    assert got[1].tolist() == [[0, lowest, lowest], [0, 0, lowest], [0, 0, 0]]
    told = tensor("m", 2, 2, description="Causal attention mask")
    assert told[1, 0] == 0
    assert told[0, 1] == torch.finfo(torch.float32).min


def test_binary_masks() -> None:
    assert set(tensor("padding_mask", 64).tolist()) == {0.0, 1.0}
    assert set(tensor("padding_mask", 64, dtype=DType.INT32).tolist()) == {0, 1}
    assert set(tensor("keep", 64, dtype=DType.BOOL).tolist()) == {False, True}


def test_deviations_are_positive() -> None:
    assert float(tensor("rstd", 256).min()) >= 0.1
    assert float(tensor("running_var", 256).min()) >= 0.1


def test_rope_tables_are_independent() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        cos, sin = (random_tensor(spec(name), (256,), CPU) for name in ("cos", "rope_sin"))
    assert float(cos.abs().max()) <= 1.0
    assert not torch.allclose(cos**2 + sin**2, torch.ones(256))


@pytest.mark.parametrize("name", ["attn_weights", "routing_weights", "probs"])
def test_probabilities_sum_to_one(name: str) -> None:
    assert torch.allclose(tensor(name, 3, 5).sum(-1), torch.ones(3))


@pytest.mark.parametrize("name", ["A", "A_log", "A_cumsum", "g"])
def test_state_space_names_stay_small(name: str) -> None:
    assert float(tensor(name, 64).abs().max()) <= 1.0


def test_projections_are_scaled() -> None:
    assert 0.4 < float(tensor("q_proj", 256, 4).std()) < 0.6
    assert 0.9 < float(tensor("q_proj", 1024).std()) < 1.1


@pytest.mark.parametrize("dtype", [DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2])
def test_8_bit_floats_are_clamped(dtype: DType) -> None:
    assert float(tensor("x", 512, dtype=dtype).float().abs().max()) <= 2.0


def test_4_bit_floats_are_packed() -> None:
    got = tensor("x", 4, 16, dtype=DType.FLOAT4_E2M1FN_X2).view(torch.uint8)
    assert got.shape == (4, 16)
    codes = torch.cat([got & 15, got >> 4]).flatten()
    assert len(set(codes.tolist())) > 8


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(DType.INT8, -128, 127), (DType.UINT8, 0, 255), (DType.INT64, -1024, 1023)],
)
def test_integers(dtype: DType, low: int, high: int) -> None:
    got = tensor("codes", 4096, dtype=dtype)
    assert low <= int(got.min()) < low + 64
    assert high - 64 < int(got.max()) <= high


def test_float64_has_no_random_rule_but_names_still_count() -> None:
    with pytest.raises(ReferenceError_, match=r"no random draw for float64 input 'x'"):
        tensor("x", 4, dtype=DType.FLOAT64)
    assert tensor("norm_weight", 4, dtype=DType.FLOAT64).dtype is torch.float64


@pytest.mark.parametrize(
    ("dtype", "kind"), [(DType.BOOL, bool), (DType.FLOAT32, float), (DType.INT32, int)]
)
def test_random_scalars(dtype: DType, kind: type) -> None:
    assert type(random_scalar(ScalarSpec(name="k", dtype=dtype, domain=Real()))) is kind
