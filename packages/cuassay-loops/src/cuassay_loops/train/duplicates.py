"""A batch of few samples many times over, larger than those of the run: equals get one gradient.

Identical samples have identical gradients, so a batch that is too large for a truth still says
whether some of its samples went wrong: an offset that overflows in the last few, a tail that is
never computed. Several samples are dealt out in random order, since an offset that wraps around
would otherwise find the same numbers again. The gradient of the states behind the embedding is
compared between duplicates, and that of every parameter with the one of the few samples alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from cuassay.inputs.seeds import derive
from cuassay_loops.kernels import KernelFault, NoVerdict
from cuassay_loops.model.operators import SiteMode
from cuassay_loops.results import Cell, Duplicates
from cuassay_loops.sequential import BAND
from cuassay_loops.text.corpus import corpus
from cuassay_loops.train import pairs
from cuassay_loops.train.cell import Settings
from cuassay_loops.train.lane import Learner
from cuassay_loops.train.pairs import Gradients

# Batches of the run that the probe is as large as; on a GPU tokens * vocabulary of the preset
# medium pass 2**31 - 1.
FACTOR = {"cpu": 4, "cuda": 9}
_DISTINCT = 4  # samples that are duplicated
_DRAWS = 6  # all of them beyond the band: one chance in 20**6 for a correct kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One draw: samples beyond the band with the largest spread, the worst parameter."""

    wrong: tuple[int, ...] = ()
    spread: float = 0.0
    noise_spread: float = 0.0
    parameter: str = ""
    deviation: float = 0.0
    noise: float = 0.0

    @property
    def fine(self) -> bool:
        """Whether nothing was beyond the band."""
        return not self.wrong and not self.parameter


def probe(cell: Cell, settings: Settings) -> Duplicates:
    """Compare a large batch of duplicates at the cell's first state.

    Fewer samples are taken where memory does not allow for all. The kernel's own end becomes
    `failure`, what decides nothing `undecided`.
    """
    kind = settings.device.kind
    count = FACTOR[kind] * settings.preset.batch
    found = Duplicates(precision=cell.precision, start=cell.start, samples=count)
    while True:
        try:
            return _told(replace(found, samples=count), _draws(cell, settings, count))
        except KernelFault as fault:
            return replace(found, samples=count, failure=str(fault))
        except (NoVerdict, torch.OutOfMemoryError) as error:
            count = count // 2 // _DISTINCT * _DISTINCT
            if count < settings.preset.batch:
                why = str(error).splitlines()[0][:200]
                return replace(found, undecided=f"{found.samples} samples: {why}")


def _draws(cell: Cell, settings: Settings, count: int) -> list[_Seen]:
    """Return what was seen, up to the first draw in which nothing was beyond the band."""
    root = derive(settings.seed, "duplicates", cell.precision)
    lane = Learner(cell, settings, mode=SiteMode.TRUSTED, root=root, rate=0.0)
    text = corpus(cell.data, settings.preset.vocab)
    seen: list[_Seen] = []
    for draw in range(_DRAWS):
        ids, targets = text.batch(_DISTINCT, settings.preset.length, seed=root, step=draw)
        generator = torch.Generator().manual_seed(derive(root, "order", draw) % 2**63)
        order = torch.randperm(count, generator=generator).to(settings.device) % _DISTINCT
        seen.append(_draw(lane, ids.to(settings.device), targets.to(settings.device), order))
        if seen[-1].fine:
            break
    return seen


def _draw(lane: Learner, ids: torch.Tensor, targets: torch.Tensor, order: torch.Tensor) -> _Seen:
    """Compare a batch in which row i is sample `order[i]`; each sample comes equally often."""
    lane.ops.routes.part = "duplicates"
    _, single = _gradients(lane, ids, targets, SiteMode.TRUSTED)
    lane.ops.routes.repeat(order, samples=len(ids))
    noise_states, noise = _gradients(lane, ids[order], targets[order], SiteMode.NOISE)
    noise_spread = float(_spread(noise_states, order).max())
    del noise_states
    states, found = _gradients(lane, ids[order], targets[order], SiteMode.CANDIDATE)
    spread = _spread(states, order)
    floor = min(group.floor for group in lane.groups(()).values())
    beyond = spread > BAND * max(noise_spread, floor)
    # The parameter farthest beyond its band, its deviation and the noise; or nothing.
    measured = pairs.measure_pairs(single, noise, found)
    shares = {
        name: pair.deviation / (BAND * max(pair.noise_deviation, floor))
        for name, pair in measured.items()
    }
    name = max(shares, key=lambda each: shares[each], default="")
    if not name or shares[name] <= 1.0:
        parameter, deviation, known = "", 0.0, 0.0
    else:
        parameter, deviation, known = name, measured[name].deviation, measured[name].noise_deviation
    return _Seen(
        wrong=tuple(beyond.nonzero().flatten().tolist()),
        spread=float(spread.max()),
        noise_spread=noise_spread,
        parameter=parameter,
        deviation=deviation,
        noise=known,
    )


def _gradients(
    lane: Learner, ids: torch.Tensor, targets: torch.Tensor, mode: SiteMode
) -> tuple[torch.Tensor, Gradients]:
    """Return the gradient of each sample's states, (samples, values), and of every parameter.

    The former are those of the sample's own mean loss, the latter of the mean over samples.
    """
    lane.ops.mode = mode
    x = lane.model.embedded(ids.reshape(-1))
    losses = lane.model.losses(x, ids.shape, targets)
    named = dict(lane.model.named_parameters())
    states, *grads = torch.autograd.grad(losses.sum() / ids.shape[1], [x, *named.values()])
    scaled = {name: grad / len(ids) for name, grad in zip(named, grads, strict=True)}
    return states.reshape(len(ids), -1).float(), scaled


def _spread(states: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Return each row's distance from the median of its duplicates, relative to its norm."""
    distance = torch.zeros(len(states), device=states.device)
    for sample in range(_DISTINCT):
        rows = states[order == sample]
        centre = rows.median(dim=0).values
        size = centre.norm().clamp_min(torch.finfo(torch.float32).tiny)
        distance[order == sample] = (rows - centre).norm(dim=1) / size
    return torch.where(distance.isfinite(), distance, torch.inf)


def _told(base: Duplicates, seen: list[_Seen]) -> Duplicates:
    last = seen[-1]
    if last.fine:
        return replace(base, draws=len(seen), spread=last.spread, noise_spread=last.noise_spread)
    return replace(
        base,
        draws=len(seen),
        wrong=last.wrong,
        spread=last.spread,
        noise_spread=last.noise_spread,
        parameter=last.parameter,
        deviation=last.deviation,
        noise=last.noise,
    )
