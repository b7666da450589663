"""The model: its gradients are autograd's, its sites are all reached, its variants agree."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from cuassay_loops import sites
from cuassay_loops.kernels import KernelFault, local_kernel, sizes_of
from cuassay_loops.model.operators import SiteMode, stochastic_round
from cuassay_loops.model.transformer import Block, Transformer
from cuassay_loops.results import Cell
from cuassay_loops.train.lane import Learner
from tests.support import loops

_FUSED = {"linear_cross_entropy", "linear_cross_entropy_backward", "embedding_rmsnorm_backward"}


def _batch(rows: int = 2, length: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, loops.MICRO.vocab, (rows, length + 1), generator=generator)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def _plain(model: Transformer, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The same model in plain torch, differentiated by autograd."""

    def norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * gain

    def rotate(x: torch.Tensor) -> torch.Tensor:
        length, half = x.shape[2], x.shape[-1] // 2
        cos, sin = model.cos[:length], model.sin[:length]
        first, second = x[..., :half], x[..., half:]
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

    preset = model.preset
    x = norm(model.embed[ids], model.embed_norm)
    for block in model.blocks:
        assert isinstance(block, Block)
        y = norm(x, block.attn_norm)
        q, k, v = ((y @ w).reshape(*y.shape[:2], -1, model.dim).transpose(1, 2)
                   for w in (block.q, block.k, block.v))  # fmt: skip
        group = preset.heads // preset.kv_heads
        k, v = rotate(k).repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        out = functional.scaled_dot_product_attention(rotate(q), k, v, is_causal=True)
        x = x + out.transpose(1, 2).flatten(2) @ block.o
        y = norm(x, block.mlp_norm)
        x = x + (functional.silu(y @ block.gate) * (y @ block.up)) @ block.down
    logits = norm(x, model.norm) @ model.head
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")


@pytest.mark.parametrize("fused", [(), *((site,) for site in (*_FUSED, "fused_add_rmsnorm"))])
def test_losses_and_gradients_are_those_of_plain_torch(fused: tuple[str, ...]) -> None:
    model = loops.micro(kernels=dict.fromkeys(fused, loops.never))
    ids, targets = _batch()
    ours, plain = model(ids, targets), _plain(model, ids, targets)
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-5)
    parameters = list(model.parameters())
    for mine, theirs in zip(
        torch.autograd.grad(ours.mean(), parameters),
        torch.autograd.grad(plain.mean(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-6)


def test_every_training_site_is_reached() -> None:
    met: set[str] = set()
    for fused in ((), tuple(_FUSED), ("fused_add_rmsnorm",)):
        model = loops.micro("bf16", kernels=dict.fromkeys(fused, loops.never))
        model.ops.watch = lambda site, values: met.add(site)
        model(*_batch()).mean().backward()
    capped = replace(loops.MICRO, softcap=30.0, window=8)
    model = Transformer(capped, loops.micro("bf16").ops)
    model.ops.watch = lambda site, values: met.add(site)
    model(*_batch()).mean().backward()
    mixture = loops.micro("bf16", preset=loops.MICRO_MOE)
    mixture.ops.watch = lambda site, values: met.add(site)
    mixture(*_batch()).mean().backward()
    passes = (sites.Phase.FORWARD, sites.Phase.BACKWARD)
    wanted = {s.name for s in sites.SITES.values() if s.phase in passes}
    assert met == wanted


@pytest.mark.parametrize("options", [{"accumulate": 4}, {"recompute": True}])
def test_accumulated_and_recomputed_gradients_are_those_of_one_batch(
    options: dict[str, int],
) -> None:
    cell = Cell(data="uniform", optimizer="sgd", precision="fp32", seed=0)
    batch = _batch(rows=8)
    found = [
        Learner(
            cell,
            loops.settings("rmsnorm", loops.never, **more),
            mode=SiteMode.TRUSTED,
            root=3,
            rate=0.1,
        ).gradients(batch, SiteMode.TRUSTED)
        for more in ({}, options)
    ]
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    for name, gradient in found[0][1].items():
        torch.testing.assert_close(found[1][1][name], gradient, rtol=1e-4, atol=1e-7)


def test_torch_compile_leaves_the_operators_to_the_kernel() -> None:
    cell = Cell(data="uniform", optimizer="sgd", precision="fp32", seed=0)
    called: list[int] = []
    plain = local_kernel(
        lambda x, weight, eps: functional.rms_norm(x, x.shape[-1:], weight, eps),
        loops.problem("rmsnorm", "fp32"),
    )

    def kernel(values: object) -> tuple[torch.Tensor, ...]:
        called.append(1)
        return plain(values)  # type: ignore[arg-type]

    made = loops.settings("rmsnorm", kernel, compile_with="eager")
    lane = Learner(cell, made, mode=SiteMode.CANDIDATE, root=3, rate=0.1)
    loss, _ = lane.gradients(_batch(), SiteMode.CANDIDATE)
    trusted, _ = lane.gradients(_batch(), SiteMode.TRUSTED)
    assert loss == pytest.approx(trusted, rel=1e-5)
    assert len(called) == 4  # behind the embedding, twice in the block, at the end


def test_stochastic_rounding_keeps_the_mean_and_moves_one_step_at_most() -> None:
    values = torch.full((20_000,), 1.0 + 0.25 * 2**-7)
    generator = torch.Generator().manual_seed(0)
    uniform = torch.rand(len(values), generator=generator) * 2 - 1
    rounded = stochastic_round(values, torch.bfloat16, uniform).float()
    assert set(rounded.tolist()) == {1.0, 1.0 + 2**-7}
    assert float(rounded.mean()) == pytest.approx(float(values[0]), abs=1e-4)
    zero = torch.tensor([0.0, float("inf")])
    assert stochastic_round(zero, torch.bfloat16, uniform[:2]).tolist() == [0.0, float("inf")]


def test_axes_are_solved_from_shapes() -> None:
    q = torch.zeros(2, 6, 5, 8)
    k = torch.zeros(2, 3, 9, 8)
    sizes = sizes_of(loops.problem("attention"), [q, k, k, 0.1])
    assert (sizes["group"], sizes["past"], sizes["kv_heads"]) == (2, 4, 3)


def test_a_wrong_shape_is_the_kernel_s_fault() -> None:
    kernel = local_kernel(lambda x, weight, eps: x[:1], loops.problem("rmsnorm"))
    x = torch.zeros(4, 16, dtype=torch.bfloat16)
    with pytest.raises(KernelFault, match=r"output 'y' is .* expected"):
        kernel([x, x[0], 1e-6])
