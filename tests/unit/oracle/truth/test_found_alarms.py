"""Inputs that a search came upon, on which honest kernels were once rejected."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import pytest
import torch

from cuassay.formats.execute import load_reference
from cuassay.judge.trial import open_trial
from cuassay.model.case import Case, Fill
from cuassay.model.device import CPU
from cuassay.model.verdict import Profile
from cuassay.oracle.compare.outputs import compare
from tests.zoo.manifest import HERE, load

_OTHER_DRAWS = 3


def _case(axes: str, fills: str, *, seed: int, **scalars: float) -> Case:
    """Return a case written as `rows=3 hidden=7` and `x:constant:value=18.0 w:normal`."""
    found: dict[str, Fill] = {}
    for part in fills.split():
        name, kind, *parameters = part.split(":")
        pairs = (parameter.split("=") for parameter in parameters)
        found[name] = Fill(kind=kind, parameters={key: float(value) for key, value in pairs})
    sizes = {name: int(size) for name, size in (part.split("=") for part in axes.split())}
    return Case(label="found", axes=sizes, fills=found, scalars=scalars, seed=seed)


CASES = (
    # subnormal operands that the matrix unit flushes
    pytest.param(
        "gemm_torch",
        "gemm@bfloat16",
        _case("m=16 n=320 k=64", "a:tiny b:lognormal", seed=3581858160800281969),
        id="gemm_torch-bfloat16",
    ),
    # partial sums in the order of the tokens
    pytest.param(
        "embedding_grad_one_hot",
        "embedding_grad@float32",
        _case(
            "tokens=385 hidden=68 vocab=45",
            "grad_output:cancelling input_ids:zipf:exponent=1.2 weight:cancelling",
            seed=8118851936098934148,
            scale=18.53792784903661,
        ),
        id="embedding_grad_one_hot-float32",
    ),
    # groups of equal score hold different experts
    pytest.param(
        "moe_route_grouped_sorted",
        "moe_route_grouped@bfloat16",
        _case("tokens=512 width=3", "logits:small_integers bias:ones", seed=100162939122409475),
        id="moe_route_grouped_sorted-bfloat16",
    ),
    # nearly equal rows err alike
    pytest.param(
        "geglu_backward_aten",
        "geglu_backward@float32",
        _case(
            "rows=32 hidden=1408",
            "grad_output:near_constant gate:near_constant up:near_constant",
            seed=3954781440674035821,
        ),
        id="geglu_backward_aten-float32",
    ),
    # equal rows err alike
    pytest.param(
        "layernorm_backward_aten",
        "layernorm_backward@float32",
        _case(
            "rows=3073 hidden=3",
            "grad_output:large_mean_small_variance x:late_peak:value=180.0 "
            "weight:normal:mean=1.0:scale=0.5",
            seed=8635791721741724535,
            eps=1e-05,
        ),
        id="layernorm_backward_aten-float32",
    ),
    # equal rows err alike
    pytest.param(
        "layernorm_backward_aten",
        "layernorm_backward@float16",
        _case(
            "rows=1281 hidden=7",
            "grad_output:offset:mean=10.0:scale=0.01 x:constant:value=18.0 weight:normal:scale=1.8",
            seed=4829149483108420557,
            eps=4.792556565651229e-06,
        ),
        id="layernorm_backward_aten-float16",
    ),
    # a product that passes through subnormal numbers
    pytest.param(
        "adamw_step_torch",
        "adamw_step@bfloat16",
        _case(
            "size=257",
            "param:small_integers grad:tiny exp_avg:tiny exp_avg_sq:zeros",
            seed=5918457209973899085,
            lr=0.00882404098887318,
            beta1=0.9,
            beta2=0.95,
            eps=1e-08,
            weight_decay=0.1,
            step=10,
        ),
        id="adamw_step_torch-bfloat16",
    ),
    # products of subnormal and ordinary operands that the matrix unit flushes
    pytest.param(
        "gemm_torch",
        "gemm@bfloat16",
        _case("m=32 n=97 k=210", "a:lognormal:sigma=0.5 b:tiny", seed=6566919388522838610),
        id="gemm_torch-bfloat16-other-operand",
    ),
    # equal rows: another formula cancels where the reference's does not
    pytest.param(
        "groupnorm_backward_autograd",
        "groupnorm_backward@float32",
        _case(
            "batch=21 width=3 spatial=5",
            "grad_output:powers_of_two x:constant:value=0.1 weight:normal:mean=1.0:scale=0.5",
            seed=1325899800698034834,
            eps=1e-05,
        ),
        id="groupnorm_backward_autograd-float32",
    ),
    # rows of two elements: what cancels is shared out otherwise
    pytest.param(
        "layernorm_backward_aten",
        "layernorm_backward@float32",
        _case(
            "rows=2 hidden=2",
            "grad_output:normal x:normal weight:normal:mean=1.0:scale=0.5",
            seed=1646704066256149816,
            eps=1e-05,
        ),
        id="layernorm_backward_aten-float32-two",
    ),
    # sums of products with the row before its mean is taken off, in eight lanes
    pytest.param(
        "layernorm_backward_aten",
        "layernorm_backward@float32",
        _case(
            "rows=17 hidden=587",
            "grad_output:alternating:scale=0.056 x:large_mean_small_variance "
            "weight:normal:mean=1.0:scale=0.5",
            seed=3533051330187668987,
            eps=1e-05,
        ),
        id="layernorm_backward_aten-float32-uncentred",
    ),
)


@pytest.mark.parametrize(("kernel", "problem", "case"), CASES)
def test_honest_kernel_passes_on_every_draw(kernel: str, problem: str, case: Case) -> None:
    name, _, dtype = problem.partition("@")
    found = load(name, dtype=dtype)
    trial = open_trial(
        found, load_reference(found), profile=Profile.STANDARD, device=CPU, root_seed=1
    )
    run = _entry(HERE / "honest" / f"{kernel}.py")
    for number in range(1 + _OTHER_DRAWS):
        drawn = dataclasses.replace(case, seed=case.seed + number)
        outputs = run(*trial.inputs(drawn).values())
        listed = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        for output, truth in zip(listed, trial.truth(drawn).outputs, strict=True):
            judged = compare(output, truth)
            assert judged.passed, f"draw {number}: {judged.worst}"


def _entry(path: Path):  # type: ignore[no-untyped-def]
    spec = importlib.util.spec_from_file_location(f"found_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run
