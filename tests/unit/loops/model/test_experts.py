"""The mixture of experts: its gradients are autograd's, choices are judged by what they select."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from cuassay.errors import UsageError
from cuassay.formats import load_problem
from cuassay.model.case import DECODING, TRAINING
from cuassay.model.device import CPU
from cuassay.model.loop import LoopSettings
from cuassay.model.verdict import Decision, Profile
from cuassay_loops import presets, sites, states
from cuassay_loops.infer.inference import infer
from cuassay_loops.infer.paged import exact_logits, prefill
from cuassay_loops.kernels import Kernel, KernelFault, local_kernel
from cuassay_loops.model.operators import SiteMode
from cuassay_loops.model.routing import Routes, same_choice
from cuassay_loops.model.transformer import Block, Transformer
from cuassay_loops.results import Cell, InferReport
from cuassay_loops.train import trained
from cuassay_loops.train.cell import run_cell
from cuassay_loops.train.lane import Learner
from tests.support import loop_faults as faults
from tests.support import loops

_MOE = loops.MICRO_MOE


def _batch(rows: int = 2, length: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, _MOE.vocab, (rows, length + 1), generator=generator)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def _plain_branch(y: torch.Tensor, block: Block) -> torch.Tensor:
    """Every expert on every token, weighted by what the router chose, in plain torch."""
    best = (y @ block.router).topk(2, dim=-1)
    shares = torch.zeros(len(y), block.router.shape[1])
    shares = shares.scatter(1, best.indices, torch.softmax(best.values, -1))
    gate, up = torch.einsum("th,ehf->tef", y, block.gate_up).chunk(2, dim=-1)
    out = torch.einsum("tef,efh->teh", functional.silu(gate) * up, block.down)
    return (out * shares.unsqueeze(-1)).sum(1)


def test_losses_and_gradients_are_those_of_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = loops.micro(preset=_MOE)
    ids, targets = _batch()
    parameters = list(model.parameters())
    ours = model(ids, targets)
    mine = torch.autograd.grad(ours.mean(), parameters)
    monkeypatch.setattr(Transformer, "mlp", lambda self, block, y: _plain_branch(y, block))
    plain = model(ids, targets)
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-5)
    theirs = torch.autograd.grad(plain.mean(), parameters)
    for found, wanted in zip(mine, theirs, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("options", [{"accumulate": 4}, {"recompute": True}])
def test_parts_of_a_batch_take_the_experts_of_their_own(options: dict[str, int]) -> None:
    cell = Cell(data="uniform", optimizer="sgd", precision="fp32", seed=0)
    made = loops.settings("rmsnorm", loops.never, preset=_MOE, **options)
    lane = Learner(cell, made, mode=SiteMode.TRUSTED, root=3, rate=0.1)
    plain = Learner(
        cell,
        loops.settings("rmsnorm", loops.never, preset=_MOE),
        mode=SiteMode.TRUSTED,
        root=3,
        rate=0.1,
    )
    batch = _batch(rows=8)
    _, wanted = plain.gradients(batch, SiteMode.TRUSTED)
    for mode in (SiteMode.TRUSTED, SiteMode.NOISE):  # the twin takes the trusted run's experts
        _, found = lane.gradients(batch, mode)
        for name, gradient in wanted.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-6)


def _kernel(site: str, call: faults.Run) -> Kernel:
    return local_kernel(call, loops.problem(site))


@pytest.mark.parametrize(
    ("site", "fault", "twin"),
    [faults.MOE[0], faults.MOE[2]],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_faults_leave_the_band_and_twins_do_not(
    site: str, fault: faults.Run, twin: faults.Run
) -> None:
    cell = Cell(data="real", optimizer="sgd", precision="bf16", seed=0)
    for call, left in ((fault, True), (twin, False)):
        made = loops.settings(site, _kernel(site, call), steps=7, preset=_MOE)
        found = run_cell(cell, made)
        assert found.gradient_left_band is left, found
        assert not found.failure


def test_a_kernel_before_the_router_is_compared_on_the_trusted_run_s_experts() -> None:
    kernel = loops.zoo_kernel("rmsnorm", "eps_outside_root", folder="twins")
    cell = Cell(data="real", optimizer="adamw", precision="bf16", seed=0)
    found = run_cell(cell, loops.settings("rmsnorm", kernel, steps=7, preset=_MOE))
    assert not found.left, found
    assert found.evidence < 1.0


def test_choices_are_the_same_where_the_values_they_select_are() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0, 3.0], [0.5, 0.5 + 2**-24, 0.25, 0.0], [4.0, 2, 1, 0]])
    right = torch.tensor([[3, 1], [1, 0], [0, 1]])
    assert same_choice(logits, right).all()
    wrong = torch.tensor([[3, 3], [1, 2], [0, 2]])  # twice the same, the third, the third
    assert not same_choice(logits, wrong).any()


def test_a_tie_is_taken_as_the_trusted_run_took_it_and_a_wrong_choice_stays() -> None:
    routes, logits = Routes(), torch.tensor([[1.0, 2.0, 2.0, 0.0], [3.0, 2.0, 1.0, 0.0]])
    trusted = (torch.tensor([[0.6, 0.4], [0.7, 0.3]]), torch.tensor([[1, 2], [0, 1]]))
    routes.settled(0, logits, trusted, trusted=True, judged=False)
    answer = (torch.tensor([[0.5, 0.5], [0.9, 0.1]]), torch.tensor([[2, 1], [0, 2]]))
    weights, chosen = routes.settled(0, logits, answer, trusted=False, judged=True)
    assert chosen.tolist() == [[1, 2], [0, 2]]
    assert weights.tolist() == answer[0].tolist()


@pytest.mark.parametrize(
    ("site", "call", "message"),
    [
        (
            "moe_route",
            lambda logits: (logits[:, :2], torch.full((len(logits), 2), 16)),
            "'experts_of' holds 16; expected experts from 0 to 15",
        ),
        (
            "moe_gather",
            lambda x, experts_of: (
                x.repeat_interleave(2, 0),
                torch.zeros(2 * len(x), dtype=torch.int64),
                torch.zeros(16, dtype=torch.int64),
            ),
            "does not hold each of the 1024 slots once",
        ),
        (
            "moe_gather",
            lambda x, experts_of: (*faults.gather_counted(x, experts_of)[:2], torch.arange(16)),
            "'counts' adds up to 120, expected 1024",
        ),
    ],
)
def test_answers_that_cannot_be_followed_are_the_kernel_s_fault(
    site: str, call: faults.Run, message: str
) -> None:
    cell = Cell(data="uniform", optimizer="sgd", precision="bf16", seed=0)
    made = loops.settings(site, _kernel(site, call), steps=2, preset=_MOE)
    assert message in run_cell(cell, made).failure


def _infer(
    monkeypatch: pytest.MonkeyPatch, site: str, call: faults.Run, *, precision: str = "bf16"
) -> InferReport:
    weights = loops.micro(preset=_MOE).state_dict()
    monkeypatch.setattr(trained, "weights", lambda *given, **more: weights)
    return infer(
        LoopSettings(site=site, sequences=3, tokens=30, longest=64, precisions=(precision,)),
        site=sites.find_site(site),
        kernel=local_kernel(call, loops.problem(site, precision)),
        preset=_MOE,
        device=CPU,
        digest="",
        seed=4,
        say=lambda text: None,
    )


def test_experts_in_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = _infer(monkeypatch, "moe_gather", faults.gather_counted)
    assert twin.decision is Decision.ACCEPTED, twin.reason
    bug = _infer(monkeypatch, "moe_route", faults.route_third)
    assert bug.decision is Decision.REJECTED


def test_prefill_gives_what_float64_gives() -> None:
    model = loops.micro("fp32", preset=_MOE)
    ids = _batch(1, 20)[0][0]
    choices: list[torch.Tensor] = []
    exact = exact_logits(model, ids, choices=choices)
    torch.testing.assert_close(prefill(model, ids).double(), exact, rtol=1e-3, atol=1e-4)
    assert [tuple(chosen.shape) for chosen in choices] == [(20, 2)] * _MOE.layers


def test_sites_of_experts_bring_their_model() -> None:
    found = presets.holding(replace(presets.PRESETS["tiny"], vocab=300), [sites.SITES["moe_route"]])
    assert (found.name, found.vocab, found.experts) == ("tiny-moe", 300, 16)
    assert presets.holding(loops.MICRO, [sites.SITES["rmsnorm"]]) is loops.MICRO
    with pytest.raises(UsageError, match="which preset 'large' has not"):
        presets.holding(presets.PRESETS["large"], [sites.SITES["moe_route"]])


@pytest.mark.parametrize(("name", "kind"), [("moe_scatter", TRAINING), ("moe_route", DECODING)])
def test_sites_of_experts_have_states(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(presets.PRESETS, "tiny-moe", _MOE)
    problem = load_problem(name)
    cases = states.plan(problem, kind, profile=Profile.STANDARD, seed=6, device=CPU)
    assert len(cases) == 3


def test_a_choice_that_is_no_expert_is_said() -> None:
    with pytest.raises(KernelFault, match="holds -1"):
        Routes().settled(
            0,
            torch.zeros(1, 4),
            (torch.ones(1, 2), torch.tensor([[-1, 0]])),
            trusted=False,
            judged=True,
        )
