"""Products in MXFP8, MXFP4 and NVFP4 against the formats' definitions; faults in them are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cuassay.catalog import registry
from cuassay.checks.numeric.values import Num001
from cuassay.formats.execute import load_reference
from cuassay.inputs.materialise import materialise
from cuassay.inputs.plan import plan_cases
from cuassay.model.device import CPU
from cuassay.model.outcome import FindingClass
from cuassay.model.verdict import Profile
from tests.support.catalog import Array, near
from tests.unit.contract.problems import findings_of, trial_of
from tests.zoo import manifest_catalog

_HONEST = Path(manifest_catalog.__file__).parent / "honest"
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def _run(name: str) -> tuple[dict[str, Any], Array]:
    problem = registry.get(name)
    case = plan_cases(problem, "small", profile=Profile.QUICK, root_seed=2)[0]
    values = materialise(problem, case, device=CPU)
    result = load_reference(problem).call(*values.values())
    assert isinstance(result, torch.Tensor)
    return dict(values), result.double().numpy()


def _numbers(codes: torch.Tensor, scales: torch.Tensor) -> Array:
    """Return what codes and block scales mean, in float64, by the formats' definitions."""
    if codes.dtype is torch.float4_e2m1fn_x2:
        packed = codes.view(torch.uint8).numpy()
        halves = np.stack([packed & 0xF, packed >> 4], -1)
        numbers = _E2M1[halves.reshape(*packed.shape[:-1], -1)]
    else:
        numbers = codes.double().numpy()
    mx = scales.dtype is torch.uint8
    factors = 2.0 ** (scales.numpy().astype(np.float64) - 127) if mx else scales.double().numpy()
    return np.asarray(numbers * np.repeat(factors, 32 if mx else 16, axis=-1))


@pytest.mark.parametrize("kind", ["mxfp8", "mxfp4", "nvfp4"])
def test_products_follow_the_definition_of_the_format(kind: str) -> None:
    v, y = _run(f"{kind}_gemm")
    alpha = v["alpha"].double().numpy() if "alpha" in v else 1.0
    near(y, alpha * _numbers(v["a"], v["scale_a"]) @ _numbers(v["b"], v["scale_b"]).T, atol=4e-3)


@pytest.mark.parametrize("kind", ["mxfp8", "mxfp4", "nvfp4"])
def test_grouped_products_take_the_group_of_a_row(kind: str) -> None:
    v, y = _run(f"{kind}_grouped_gemm")
    a, weight = _numbers(v["a"], v["scale_a"]), _numbers(v["weight"], v["scale_w"])
    expected = np.zeros_like(y)
    for row in range(len(y)):
        group = int(np.searchsorted(v["offsets"].numpy(), row, side="right")) - 1
        alpha = float(v["alpha"][group]) if "alpha" in v else 1.0
        expected[row] = alpha * a[row] @ weight[group].T
    near(y, expected, atol=4e-3)


@pytest.mark.parametrize("kind", ["mxfp8", "mxfp4", "nvfp4"])
def test_experts_are_gated_units_on_dequantised_weights(kind: str) -> None:
    v, y = _run(f"{kind}_moe_experts")
    rows = v["rows"].double().numpy()
    gate_up = _numbers(v["gate_up"], v["scale_gate_up"])
    down = _numbers(v["down"], v["scale_down"])
    expected = np.zeros_like(y)
    for row in range(len(y)):
        expert = int(np.searchsorted(v["offsets"].numpy(), row, side="right")) - 1
        first = float(v["alpha_gate_up"][expert]) if "alpha_gate_up" in v else 1.0
        second = float(v["alpha_down"][expert]) if "alpha_down" in v else 1.0
        gate, up = np.split(first * rows[row] @ gate_up[expert].T, 2)
        expected[row] = second * (gate / (1 + np.exp(-gate)) * up) @ down[expert].T
    near(y, expected, rtol=2e-2, atol=1e-2)


# Changes that change no value: neighbours exchanged in both operands, the sign of a zero.
_SAME_VALUES = (("mxfp4_gemm", "codes & 15, codes >> 4"), ("nvfp4_gemm", "both >= 8"))


@pytest.mark.parametrize(
    ("name", "style", "old", "new"),
    [
        ("mxfp8_gemm", "blocks", "scale_b[:, block]", "scale_b[:, 0]"),
        ("mxfp8_gemm", "blocks", "codes.int() - 127", "codes.int() - 128"),
        ("mxfp4_moe_experts", "loop", "codes & 15, codes >> 4", "codes >> 4, codes & 15"),
        ("mxfp4_gemm", "blocks", "codes & 15, codes >> 4", "codes >> 4, codes & 15"),  # of both
        ("mxfp4_gemm", "blocks", "exponent == 0", "exponent < 0"),  # subnormal codes
        ("nvfp4_gemm", "blocks", "total * alpha", "total"),
        ("nvfp4_gemm", "blocks", "both >= 8", "both > 8"),  # minus zero is zero
        ("nvfp4_grouped_gemm", "loop", "alpha[group]", "alpha[0]"),
        ("mxfp4_grouped_gemm", "loop", "scale_w[group]", "scale_w[0]"),
        ("mxfp8_grouped_gemm", "loop", "scale_a[rows]", "scale_a[: rows.stop - rows.start]"),
        ("mxfp4_moe_experts", "loop", "scale_down[expert]", "scale_down[0]"),
        ("mxfp8_moe_experts", "loop", "first[half:]", "first[:half]"),
        ("nvfp4_moe_experts", "loop", "second.T * alpha_down[expert]", "second.T"),
    ],
)
def test_faults_in_codes_and_scales_are_found(name: str, style: str, old: str, new: str) -> None:
    text = (_HONEST / f"{name}_{style}.py").read_text(encoding="utf-8")
    assert old in text
    trial = trial_of(registry.get(name))
    found = findings_of(Num001(), trial, text.replace(old, new))
    assert bool(found) != ((name, old) in _SAME_VALUES)
    assert all(finding.finding_class is FindingClass.WRONG for finding in found)
