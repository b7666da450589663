"""The code between KernelBench's classes and a function of tensors: how large weights are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from cuassay.formats.kernelbench import adapter


class _Layer(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.low = nn.Parameter(torch.empty(features, dtype=torch.bfloat16))
        self.small = nn.Parameter(torch.empty(512))
        nn.init.normal_(self.low, mean=0.5, std=0.02)
        nn.init.uniform_(self.small)


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return what builds a layer, with the CPU in the place of the GPU that draws."""
    text = adapter.candidate_source(
        "unused", init=[8], state=[], buffers=[], built={"features": [[0]]}, count=1, call="",
        cls="Unused",
    )  # fmt: skip
    known: dict[str, Any] = {}
    gpu = 'f"cuda:{_cuassay_torch.cuda.current_device()}"'
    assert gpu in text
    exec(text.partition("from unused import")[0].replace(gpu, '"cpu"'), known)
    monkeypatch.setattr(torch.cuda, "default_generators", (torch.default_generator,))
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: torch.get_rng_state())
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: None)
    found: Callable[..., Any] = known["_cuassay_build"]
    return found


def test_large_weights_are_drawn_on_the_gpu_alike_by_every_process(
    build: Callable[..., Any],
) -> None:
    before = torch.get_rng_state()
    one, other = build(_Layer, (9 << 20,)), build(_Layer, (9 << 20,))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.low, other.low)
    assert torch.equal(one.small, other.small)
    drawn = one.low.detach().float()
    assert float(drawn.mean()) == pytest.approx(0.5, abs=1e-3)
    assert float(drawn.std()) == pytest.approx(0.02, rel=0.05)
    parts = drawn.split(1 << 22)
    assert not torch.equal(parts[0], parts[1])
    assert one.low.requires_grad


def test_small_weights_are_those_of_the_seed(build: Callable[..., Any]) -> None:
    made = build(_Layer, (4096,))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(42)
        usual = _Layer(4096)
    assert torch.equal(made.low, usual.low)
    assert torch.equal(made.small, usual.small)


class _Traced(nn.Module):
    """Traces itself, as modules do that warm up in their constructor."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, features, 1)
        with torch.inference_mode():
            trace: Any = torch.jit.trace
            self.trace = trace(self.layer, torch.randn(2, 3, 4, 4))


def test_a_module_that_traces_itself_follows_its_input(build: Callable[..., Any]) -> None:
    own = torch.Tensor.normal_
    made = build(_Traced, (5,))
    given = torch.randn(7, 3, 4, 4)
    assert torch.equal(made.trace(given), made.layer(given))
    assert torch.Tensor.normal_ is own  # nothing of torch stays replaced


class _Step(nn.Module):
    def __init__(self, width: int, *, is_folded: bool = False) -> None:
        super().__init__()
        self.product = nn.Linear(width, width, bias=False)
        self.norm = nn.BatchNorm1d(width)
        if is_folded:
            self.folded = nn.Linear(width, width)
            nn.init.zeros_(self.folded.bias)


class _Flat(nn.Module):
    """Names of its own, and every norm behind the products."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.products = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(2))


@pytest.mark.parametrize(
    ("form", "is_drawn_alike"),
    [("steps", True), ("steps", False), ("flat", True), ("flat", False), ("folded", True)],
)
def test_norms_of_other_names_take_their_own_part_of_a_state(
    form: str, is_drawn_alike: bool
) -> None:
    """Norms begin with equal constants, so that values alone do not tell them apart."""
    theirs = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8, bias=False), nn.BatchNorm1d(8))
                             for _ in range(2)))  # fmt: skip
    state = theirs.state_dict()
    buffers = [name for name, _ in theirs.named_buffers()]
    text = adapter.candidate_source(
        "unused", init=[8], state=list(state), buffers=buffers, built={}, count=1, call="",
        cls="Unused",
    )  # fmt: skip
    known: dict[str, Any] = {}
    lines = text.replace("from unused import Unused as ModelNew", "ModelNew = None")
    exec(lines.replace("_cuassay_build(ModelNew)", "None"), known)
    model: nn.Module = _Flat(8)
    if form != "flat":
        model = nn.ModuleList(_Step(8, is_folded=form == "folded") for _ in range(2))
    names = ("products.{0}", "norms.{0}") if form == "flat" else ("{0}.product", "{0}.norm")
    wanted = {}
    for name in state:
        step, part, own = name.split(".")
        wanted[name] = f"{names[int(part)].format(step)}.{own}"
    if is_drawn_alike:
        for name in state:
            model.state_dict()[wanted[name]].copy_(state[name])
    pairs = known["_cuassay_pairs"](model, list(state.values()))
    assert {list(state)[at]: name for at, name in pairs} == wanted
