"""How a benchmark draws by names: norms that do nothing, masks, positive numbers, codes."""

from __future__ import annotations

import pytest
import torch

from cuassay.errors import ReferenceError_
from cuassay.inputs.benchmark_rules import random_scalar, random_tensor
from cuassay.model.device import CPU
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import ScalarSpec, TensorSpec


def _drawn(name: str, shape: tuple[int, ...] = (64, 64), dtype: DType = DType.FLOAT32,
           description: str = "") -> torch.Tensor:  # fmt: skip
    torch.manual_seed(3)
    spec = TensorSpec(name=name, dtype=dtype, shape=(), domain=Real(), description=description)
    return random_tensor(spec, shape, CPU)


def test_a_norm_multiplies_by_one_and_adds_nothing() -> None:
    assert torch.equal(_drawn("input_layernorm_weight"), torch.ones(64, 64))
    assert torch.equal(_drawn("norm2_bias1"), torch.zeros(64, 64))


@pytest.mark.parametrize(
    "drawn",
    [
        lambda: _drawn("attention_mask"),
        lambda: _drawn("m", description="A causal attention mask of zeros and -inf"),
    ],
)
def test_a_causal_mask_blocks_what_comes_later(drawn: object) -> None:
    mask = drawn()  # type: ignore[operator]
    above = torch.ones(64, 64, dtype=torch.bool).triu(1)
    assert bool((mask[above] == torch.finfo(torch.float32).min).all())
    assert not mask[~above].any()


def test_a_mask_that_is_not_square_is_no_causal_one() -> None:
    assert not torch.equal(_drawn("attention_mask", (4, 8))[0, :1], torch.zeros(1))


def test_names_say_which_numbers_come() -> None:
    assert set(_drawn("key_padding_mask").flatten().tolist()) == {0.0, 1.0}
    assert set(_drawn("dropout_mask", dtype=DType.INT32).flatten().tolist()) == {0, 1}
    assert float(_drawn("batch_var").min()) >= 0.1
    assert float(_drawn("cos_cached").abs().max()) <= 1.0
    assert (float(_drawn("a_log").min()), float(_drawn("a_log").max())) >= (0.0, 0.9)
    assert float(_drawn("g").max()) <= 0.0
    assert torch.allclose(_drawn("attn_weights").sum(-1), torch.ones(64), atol=1e-5)
    weight = _drawn("q_proj", (64, 1024))
    assert float(weight.std()) == pytest.approx(1 / 32, rel=0.05)


def test_other_numbers_come_by_their_type() -> None:
    assert 0.9 < float(_drawn("x").std()) < 1.1
    assert float(_drawn("x", dtype=DType.FLOAT8_E4M3FN).float().abs().max()) <= 2.0
    assert set(_drawn("x", dtype=DType.BOOL).flatten().tolist()) == {False, True}
    assert int(_drawn("x", dtype=DType.INT8).min()) >= -128
    assert int(_drawn("x", dtype=DType.UINT8).max()) > 200
    with pytest.raises(ReferenceError_, match="float64 input 'x'"):
        _drawn("x", dtype=DType.FLOAT64)


def test_packed_pairs_hold_the_nearest_codes() -> None:
    codes = _drawn("x", (4096,), DType.FLOAT4_E2M1FN_X2).view(torch.uint8)
    counted = torch.bincount((codes & 7).long(), minlength=8).double() / codes.numel()
    # N(0, 1): |x| < 0.25 has 19.7 % of it, |x| > 5 next to nothing.
    assert float(counted[0]) == pytest.approx(0.197, abs=0.03)
    assert float(counted[7]) < 0.001


def test_scalars_are_of_their_type() -> None:
    def scalar(dtype: DType) -> object:
        return random_scalar(ScalarSpec(name="s", dtype=dtype, domain=Real()))

    assert isinstance(scalar(DType.BOOL), bool)
    assert isinstance(scalar(DType.FLOAT32), float)
    assert 0 <= int(str(scalar(DType.UINT8))) < 256
