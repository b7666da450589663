"""What a truth holds: kind, reason, determinism, conditions, and what it does not touch."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from cuassay.errors import ReferenceError_
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth.make import hit_counts, make_truth
from cuassay.oracle.truth.runs import ReferenceRunner
from tests.support.oracle_cases import normal, spec, truth_of, whole

_ROOT = Path(__file__).resolve().parents[4]


def _softmax(x: Tensor) -> Tensor:
    return torch.softmax(x.float(), -1).to(x.dtype)


def test_the_same_seed_gives_the_same_truth_and_leaves_inputs_and_random_state_alone() -> None:
    x = normal(16, 64, dtype=torch.bfloat16)
    kept = x.clone()
    state = torch.random.get_rng_state()
    first = make_truth(_softmax, [x], [spec("bfloat16", "m", "n")], seed=3)
    again = make_truth(_softmax, [x], [spec("bfloat16", "m", "n")], seed=3)
    other = make_truth(_softmax, [x], [spec("bfloat16", "m", "n")], seed=4)
    assert torch.equal(x, kept)
    assert torch.equal(torch.random.get_rng_state(), state)
    scales = [t.outputs[0].scale for t in (first, again, other)]
    assert scales[0] is not None
    assert scales[1] is not None
    assert scales[2] is not None
    assert torch.equal(scales[0], scales[1])
    assert not torch.equal(scales[0], scales[2])


def test_truth_is_the_float64_value_and_says_so() -> None:
    x = normal(16, 64, dtype=torch.bfloat16)
    truth = whole(_softmax, [x], spec("bfloat16", "m", "n"))
    assert truth.kind == "float64"
    assert truth.draws == 8
    assert truth.runs > 0
    assert truth.ill_conditioned == ""
    expected = torch.softmax(x.double(), -1)
    assert torch.allclose(truth.outputs[0].value, expected, rtol=1e-14)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (2, 0, 3), (0,)])
def test_an_empty_output_is_judged_by_its_shape(shape: tuple[int, ...]) -> None:
    x = torch.empty(shape)
    names = tuple("abc"[: len(shape)])
    truth = whole(lambda v: v * 1.5, [x], spec("float32", *names)).outputs[0]
    assert compare(x, truth).passed
    assert not compare(torch.empty(1), truth).passed


def test_large_outputs_take_fewer_draws() -> None:
    truth = whole(lambda v: v * 1.5, [normal(512, 512)], spec("float32", "m", "n"))
    assert truth.draws == 4


def test_a_reference_that_cannot_be_lifted_is_judged_by_its_float32_run() -> None:
    def through_bits(x: Tensor) -> Tensor:
        return (x.float().view(torch.int32) & -4).view(torch.float32) * 2.0

    x = normal(16, 64)
    truth = whole(through_bits, [x], spec("float32", "m", "n"))
    assert truth.kind == "float32"
    assert "could not be lifted" in truth.reason
    assert compare(through_bits(x), truth.outputs[0]).passed
    assert not compare(through_bits(x) * 1.01, truth.outputs[0]).passed


def test_a_failing_reference_and_a_wrong_count_raise() -> None:
    def fails(x: Tensor) -> Tensor:
        raise ValueError("no")

    with pytest.raises(ReferenceError_, match="no"):
        whole(fails, [normal(4)], spec("float32", "m"))
    with pytest.raises(ReferenceError_, match="returned 1 outputs, expected 2"):
        whole(lambda x: x, [normal(4)], spec("float32", "m"), spec("float32", "m", name="z"))


def test_hit_counts_of_the_wrong_length_raise() -> None:
    with pytest.raises(ReferenceError_, match="hit counts of output 'y' have 3 rows"):
        make_truth(
            lambda x: x * 2,
            [normal(4, 8)],
            [spec("float32", "m", "n")],
            seed=0,
            index_hits={"y": torch.ones(3)},
        )


def test_hit_counts_ignore_sentinels() -> None:
    assert hit_counts(torch.tensor([0, 2, 2, -100, 7]), 4).tolist() == [1, 0, 2, 0]


def test_cancellation_to_noise_is_ill_conditioned_and_says_how_much() -> None:
    x = normal(16, 64) * 1e4

    def unstable(v: Tensor) -> Tensor:
        return (v + 1e8) - v - 1e8 + 1e-3 * v

    truth = whole(unstable, [x], spec("float32", "m", "n"))
    assert "trusted implementations err by" in truth.ill_conditioned


def test_an_exact_reference_of_integers_leaves_no_room() -> None:
    x = torch.arange(64).view(4, 16)
    truth = truth_of(lambda v: v * 3, [x], "int64", "m", "n")
    assert truth.scale is None
    assert compare(x * 3, truth).passed
    wrong = x * 3
    wrong[1, 1] += 1
    assert not compare(wrong, truth).passed


def test_a_stochastic_reference_draws_the_same_numbers_in_every_run() -> None:
    def dropout(x: Tensor) -> Tensor:
        return x * (torch.rand(x.shape) > 0.5)

    truth = truth_of(dropout, [normal(32, 32)], "float32", "m", "n")
    assert truth.ambiguous_share == 0.0
    assert float(((truth.value == 0).double()).mean()) == pytest.approx(0.5, abs=0.1)


def test_an_exponent_may_be_a_tensor() -> None:
    def decayed(x: Tensor, age: Tensor) -> Tensor:
        return (x.float().abs() + 0.5) ** age

    x, age = normal(16, 64), torch.arange(64, dtype=torch.float32) / 16
    truth = make_truth(decayed, [x, age], [spec("float32", "m", "n")], seed=1)
    assert truth.kind == "float64", truth.reason
    assert compare(decayed(x, age), truth.outputs[0]).passed
    assert not compare(decayed(x, age + 1e-3), truth.outputs[0]).passed


def test_unwritten_rows_stay_exact_and_written_ones_do_not() -> None:
    index = torch.tensor([1, 1, 3, 3, 3, 5])
    grad = normal(6, 32)

    def scatter(g: Tensor, i: Tensor) -> Tensor:
        return torch.zeros(8, 32).index_add_(0, i, g)

    truth = truth_of(scatter, [grad, index], "float32", "v", "h")
    assert truth.scale is not None
    assert (truth.scale[[0, 2, 4, 6, 7]] == 0).all()
    assert (truth.scale[[1, 3]] > 0).all()
    leaked = scatter(grad, index)
    leaked[7] += 1e-6
    assert not compare(leaked, truth).passed


def test_the_noise_of_a_product_grows_as_a_random_walk() -> None:
    a, b = normal(8, 4096), normal(4096, 8, seed=1)
    truth = truth_of(torch.matmul, [a, b], "float32", "m", "n")
    assert truth.scale is not None
    scale = float(truth.scale.double().square().mean().sqrt())
    walk = 2.0**-24 * math.sqrt(4096) * math.sqrt(4096 / 2)  # u sqrt(n) rms of the prefix sums
    # 64 elements of a few draws, and the processor's own product: 0.8 to 1.7 times were seen.
    assert 0.5 * walk < scale < 2.0 * walk


def _layer_norm_gradient(x: Tensor) -> Tensor:
    leaf = x.detach().requires_grad_()
    y = torch.nn.functional.layer_norm(leaf, (64,))
    return torch.autograd.grad(y, leaf, x.detach().flip(-1))[0]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.nn.functional.layer_norm(x, (64,)),
        lambda x: torch.nn.functional.group_norm(x, 4),
        lambda x: torch.nn.functional.gelu(x),
        lambda x: torch.log_softmax(x, -1),
        lambda x: x.logsumexp(-1, keepdim=True).expand_as(x).contiguous(),
        lambda x: torch.nn.functional.softplus(x).cumsum(-1),
        lambda x: torch.fft.irfft(torch.fft.rfft(x), n=64),
        lambda x: torch.linalg.solve(x[:, :16] @ x[:, :16].T + 20 * torch.eye(16), x),
        _layer_norm_gradient,
        lambda x: torch.var(x, -1, keepdim=True).expand_as(x) * x,
    ],
)
def test_every_kind_of_operator_gets_noise_and_accepts_its_own_reference(fn: object) -> None:
    assert callable(fn)
    x = normal(16, 64)
    truth = truth_of(fn, [x], "float32", "m", "n")
    assert truth.scale is not None
    assert (truth.scale > 0).all()
    result = fn(x)
    assert isinstance(result, Tensor)
    assert compare(result, truth).passed
    assert not compare(result * 1.0005, truth).passed


@pytest.mark.parametrize("low", [-math.inf, torch.finfo(torch.float32).min])
def test_masks_carry_no_noise_and_do_not_swallow_that_of_the_rest(low: float) -> None:
    x = normal(16, 64) * 8
    mask = torch.zeros(16, 64)
    mask[:, 40:] = low
    mask[3] = torch.finfo(torch.float32).min  # a row with every key masked

    def masked(v: Tensor, m: Tensor) -> Tensor:
        return torch.softmax(v * 0.7 + m, -1)

    plain = truth_of(lambda v: torch.softmax(v * 0.7, -1), [x[:3, :40]], "float32", "m", "n")
    truth = whole(masked, [x, mask], spec("float32", "m", "n"))
    assert truth.ill_conditioned == ""
    scale = truth.outputs[0].scale
    assert scale is not None
    assert plain.scale is not None
    ratio = scale[:3, :40].double().square().mean() / plain.scale.double().square().mean()
    assert 0.2 < float(ratio) < 5
    assert compare(masked(x, mask), truth.outputs[0]).passed
    assert not compare(masked(x, mask * 0), truth.outputs[0]).passed


def test_a_decomposed_operation_does_not_load_torchs_compiler() -> None:
    """torch loads it, a second, to exempt a dispatch mode that does not say so itself."""
    program = (
        "import sys, torch\n"
        "from tests.support.oracle_cases import truth_of\n"
        "def loss(x):\n"
        "    targets = torch.zeros(len(x), dtype=torch.int64)\n"
        "    return torch.nn.functional.cross_entropy(x, targets, reduction='none')\n"
        "truth_of(loss, [torch.randn(4, 8)], 'float32', 'm')\n"
        "sys.exit('torch._dynamo' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, cwd=_ROOT)
    assert done.returncode == 0


@pytest.mark.parametrize("draws", [2, 8])
def test_a_reference_may_return_a_slice_or_a_transpose(draws: int) -> None:
    x = normal(64, 96, dtype=torch.bfloat16)

    def transposed(x: Tensor) -> Tensor:
        return (x.float() @ x.float().T)[:, :40].T

    output = truth_of(transposed, [x], "bfloat16", "m", "n", draws=draws)
    assert output.value.is_contiguous()
    assert compare(transposed(x).to(torch.bfloat16), output).passed
    assert not compare(transposed(x * 1.01).to(torch.bfloat16), output).passed


def test_truth_of_a_reference_without_tensors_is_where_the_reference_puts_it() -> None:
    def frequencies(theta: float) -> Tensor:
        return theta ** -(torch.arange(0, 64, device="meta") / 64)

    runner = ReferenceRunner(frequencies, [10000.0], ["y"], seed=1)
    runner.written()
    assert runner.device.type == "meta"


def test_products_that_sum_over_a_batch_too_and_dot_products_have_the_noise_of_their_sums() -> None:
    bias, a, b = normal(24, 32), normal(5, 24, 100, seed=1), normal(5, 100, 32, seed=2)
    truth = truth_of(torch.addbmm, [bias, a, b], "float32", "m", "n")
    assert compare(
        bias + torch.stack([x @ y for x, y in zip(a, b, strict=True)]).sum(0), truth
    ).passed
    low = torch.addbmm(bias, a.bfloat16().float(), b)
    assert not compare(low, truth).passed
    x, y = normal(1000), normal(1000, seed=1)
    truth = truth_of(torch.vdot, [x, y], "float32")
    assert compare((x * y).view(40, 25).sum(0).sum(), truth).passed
    assert not compare((x.bfloat16().float() * y).sum(), truth).passed
