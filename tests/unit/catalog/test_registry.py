"""The catalogue: names, dtype variants, and references that match their specs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from cuassay.catalog import registry
from cuassay.errors import ProblemError, UnknownNameError
from cuassay.formats.execute import load_reference
from cuassay.inputs.materialise import materialise
from cuassay.inputs.plan import plan_cases
from cuassay.model.axes import shape_of
from cuassay.model.device import CPU
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.model.verdict import Profile

EIGHT = {
    "cross_entropy",
    "embedding_grad",
    "embedding_rmsnorm_backward",
    "fused_add_rmsnorm",
    "rmsnorm",
    "rmsnorm_backward",
    "softmax_softcap",
    "swiglu",
}


def run(name: str, purpose: str = "small") -> tuple[dict[str, Any], list[torch.Tensor]]:
    problem = registry.get(name)
    case = plan_cases(problem, purpose, profile=Profile.QUICK, root_seed=2)[0]
    values = materialise(problem, case, device=CPU)
    returned = load_reference(problem).call(*values.values())
    outputs = returned if isinstance(returned, tuple) else (returned,)
    return {key: _wide(value) for key, value in values.items()}, [_wide(out) for out in outputs]


def _wide(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) else value


def test_the_first_eight_operators_and_many_more_are_there() -> None:
    assert set(registry.names()) >= EIGHT
    assert len(registry.names()) >= 50
    assert list(registry.names()) == sorted(set(registry.names()))


def test_every_operator_has_its_own_name_and_digest() -> None:
    problems = [registry.get(name) for name in registry.names()]
    assert tuple(problem.name for problem in problems) == registry.names()
    assert len({problem.digest for problem in problems}) == len(problems)


def test_registry_loads_no_torch() -> None:
    code = "import sys, cuassay.catalog.registry as r; r.names(); print('torch' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert shown.stdout.strip() == "False"


@pytest.mark.parametrize("name", [n for n in registry.names() if not n.endswith("_64k")])
def test_references_match_their_specs_in_every_dtype(name: str) -> None:
    for dtype in registry.dtypes(name):
        problem = registry.get(name, dtype=dtype)
        cases = plan_cases(problem, "small", profile=Profile.QUICK, root_seed=0)
        case = min(cases, key=lambda case: sum(case.axes.values()))
        values = materialise(problem, case, device=CPU)
        returned = load_reference(problem).call(*values.values())
        outputs = returned if isinstance(returned, tuple) else (returned,)
        for spec, out in zip(problem.outputs, outputs, strict=True):
            assert isinstance(out, torch.Tensor)
            assert str(out.dtype) == f"torch.{spec.dtype.value}"
            assert tuple(out.shape) == shape_of(spec.shape, case.axes)


def test_variants_by_name_and_by_argument_are_one() -> None:
    by_name, by_argument = registry.get("rmsnorm@float16"), registry.get("rmsnorm", dtype="float16")
    assert by_name == by_argument
    assert by_name.name == "rmsnorm@float16"
    assert by_name.digest != registry.get("rmsnorm").digest
    kept = registry.get("rmsnorm_backward@float16").input("rstd")
    assert isinstance(kept, TensorSpec)
    assert kept.dtype is DType.FLOAT32
    assert registry.get("rmsnorm@bfloat16") == registry.get("rmsnorm")


def test_unknown_names_are_refused_with_a_hint() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'rmsnorm'"):
        registry.get("rms_norm")
    with pytest.raises(UnknownNameError, match="working dtype 'float8'"):
        registry.get("rmsnorm@float8")
    with pytest.raises(UnknownNameError, match="did you mean 'layernorm'"):
        registry.dtypes("layer_norm")
    with pytest.raises(ProblemError, match="has no float16 form"):
        registry.get("fp8_gemm@float16")
    assert registry.get("fp8_gemm@bfloat16") == registry.get("fp8_gemm")
    with pytest.raises(ProblemError, match="give one of them"):
        registry.get("rmsnorm@float16", dtype="float32")
