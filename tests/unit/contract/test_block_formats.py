"""Operators on 4-bit codes with 8-bit scales (NVFP4) are judged through what the codes mean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuassay.checks.numeric.values import Num001
from cuassay.formats import load_problem
from cuassay.model.outcome import FindingClass
from tests.support import trees
from tests.unit.contract.problems import findings_of, judgements_of, trial_of

_REFERENCE = """import torch

CODES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)

def _values(packed):
    table = torch.tensor(CODES + tuple(-c for c in CODES), device=packed.device)
    codes = packed.view(torch.uint8).long()
    return torch.stack([table[codes & 15], table[codes >> 4]], -1).flatten(-2)

def get_inputs(axes_and_scalars, device):
    m, n, pairs = (axes_and_scalars[k] for k in ("m", "n", "pairs"))
    codes = torch.randint(0, 256, (n, pairs), dtype=torch.uint8, device=device)
    scales = torch.rand(n, pairs // 8, device=device) + 0.5
    return {
        "x": torch.randn(m, 2 * pairs, device=device, dtype=torch.bfloat16),
        "w": codes.view(torch.float4_e2m1fn_x2),
        "scales": scales.to(torch.float8_e4m3fn),
    }

def run(x, w, scales):
    wide = _values(w).view(w.shape[0], -1, 16) * scales.float()[..., None]
    return (x.float() @ wide.flatten(1).T).to(torch.bfloat16)
"""


def _problem(folder: Path) -> Path:
    place = trees.sol(
        folder,
        "nvfp4",
        axes={
            "m": {"type": "var"},
            "n": {"type": "var"},
            "pairs": {"type": "const", "value": 32},
            "k": {"type": "expr", "expression": "pairs * 2"},
            "blocks": {"type": "expr", "expression": "k // 16"},
        },
        inputs={
            "x": {"shape": ["m", "k"], "dtype": "bfloat16"},
            "w": {"shape": ["n", "pairs"], "dtype": "float4_e2m1fn_x2"},
            "scales": {"shape": ["n", "blocks"], "dtype": "float8_e4m3fn"},
        },
        outputs={"y": {"shape": ["m", "n"], "dtype": "bfloat16"}},
        reference=_REFERENCE,
        custom_inputs_entrypoint="get_inputs",
    )
    custom = {name: {"type": "custom"} for name in ("x", "w", "scales")}
    place.write_text(json.dumps({"uuid": "w", "axes": {"m": 8, "n": 24}, "inputs": custom}) + "\n")
    return folder


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("codes & 15], table[codes >> 4]", "codes >> 4], table[codes & 15]"),
        ("4.0, 6.0)", "4.0, 5.0)"),
        ("* scales.float()[..., None]", "* scales.float()[..., :1, None]"),
    ],
    ids=["halves exchanged", "a wrong code", "the first block's scale"],
)
def test_faults_in_codes_and_scales_are_found(tmp_path: Path, old: str, new: str) -> None:
    trial = trial_of(load_problem(str(_problem(tmp_path))))
    assert old in _REFERENCE
    found = findings_of(Num001(), trial, _REFERENCE.replace(old, new))
    assert found
    assert all(finding.finding_class is FindingClass.WRONG for finding in found)


def test_the_reference_is_accepted(tmp_path: Path) -> None:
    trial = trial_of(load_problem(str(_problem(tmp_path))))
    judgements = judgements_of(Num001(), trial, _REFERENCE)
    assert not any(one.findings for one in judgements)
    assert sum(len(one.comparisons) for one in judgements) >= 4
