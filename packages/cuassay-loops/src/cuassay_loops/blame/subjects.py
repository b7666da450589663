"""What `cuassay loop blame` experiments on: our model with kernels, or a user's own training."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from cuassay.inputs.seeds import derive
from cuassay_loops.blame.switches import Swap, Switch, installed
from cuassay_loops.kernels import Kernel, Value
from cuassay_loops.model.operators import SiteMode
from cuassay_loops.results import Cell, Preset
from cuassay_loops.sequential import LEAN, Group, Pair
from cuassay_loops.text.corpus import corpus
from cuassay_loops.train import pairs
from cuassay_loops.train.lane import Learner
from cuassay_loops.train.pairs import Gradients


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A user's training run, made anew by `setup(seed)` of their file.

    `loss` returns the loss tensor of a step, before backward; `optimizer` steps afterwards. With
    `step` instead, which does everything and returns the loss as a number, losses are all that
    can be compared. `sites` are the places of kernels.
    """

    model: nn.Module
    sites: Sequence[Swap]
    loss: Callable[[int], torch.Tensor] | None = None
    optimizer: torch.optim.Optimizer | None = None
    step: Callable[[int], float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStep:
    """One step: the trusted run's loss and the gradients compared at its state."""

    loss: float
    pairs: Mapping[str, Pair]


class Subject(Protocol):
    """A run that can be repeated from its start with any of its kernels active."""

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the places of kernels."""

    @property
    def isolated(self) -> bool:
        """Whether kernels run in processes of their own."""

    def parts(self, site: str) -> tuple[str, ...]:
        """Return what of a site can be told apart: passes first, then outputs."""

    def begin(self) -> contextlib.AbstractContextManager[Experiment]:
        """Start the run again from its beginning."""


class Experiment(Protocol):
    """A run under way on its trusted trajectory."""

    @property
    def groups(self) -> dict[str, Group]:
        """The groups that are watched."""

    def advance(self, step: int, active: Mapping[str, str]) -> SeenStep:
        """Compare at the present state, sites of `active` in their state; then take the step."""

    def planted(self, step: int, site: str, gain: float) -> Mapping[str, Pair]:
        """Compare at the present state with a relative error planted at a site."""


class UserSubject:
    """A user's own training script, in this process and with its rights."""

    isolated = False

    def __init__(self, setup: Callable[[int], Training], seed: int) -> None:
        self._setup, self._seed = setup, seed
        made = self._made()
        self._swaps = {swap.name: swap for swap in made.sites}
        self._outputs: dict[str, int] = {}
        self.whole = made.loss is None

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the places of kernels."""
        return tuple(self._swaps)

    def parts(self, site: str) -> tuple[str, ...]:
        """Return passes, then outputs where there are several."""
        count = self._outputs.get(site, 1)
        outputs = tuple(f"output {i}" for i in range(count)) if count > 1 else ()
        return (*self._swaps[site].parts, *outputs)

    def _made(self) -> Training:
        torch.manual_seed(self._seed % 2**63)
        return self._setup(self._seed)

    @contextlib.contextmanager
    def begin(self) -> Iterator[Experiment]:
        """Make the training anew with switches at its places."""
        training = self._made()
        with installed(training.model, training.sites) as switches:
            generator = torch.Generator().manual_seed(derive(self._seed, "noise") % 2**63)
            for switch in switches.values():
                switch.generator = generator
            yield _UserExperiment(training, switches)
            self._outputs |= {name: switch.outputs for name, switch in switches.items()}

    def losses(self, steps: int, state: Mapping[str, str]) -> list[float]:
        """Return the losses of a whole run with sites in these states (others trusted)."""
        training = self._made()
        if training.step is None:
            raise ValueError("the training has no whole step")
        with installed(training.model, training.sites) as switches:
            generator = torch.Generator().manual_seed(derive(self._seed, "noise") % 2**63)
            for name, switch in switches.items():
                switch.generator = generator
                switch.state = state.get(name, "trusted")
            return [float(training.step(step)) for step in range(steps)]


class _UserExperiment:
    def __init__(self, training: Training, switches: Mapping[str, Switch]) -> None:
        self._training, self._switches = training, switches
        named = [(n, p) for n, p in training.model.named_parameters() if p.requires_grad]
        self._names = [name.replace(".inner", "") for name, _ in named]
        self._parameters = [parameter for _, parameter in named]

    @property
    def groups(self) -> dict[str, Group]:
        """One group a parameter; the noise of float32 sums of a few thousand terms is the floor."""
        floor = 4.0 * 2.0**-24 * math.sqrt(4096.0)
        return {name: Group(name=name, floor=floor, lean=LEAN) for name in self._names}

    def _gradients(self, step: int, states: Mapping[str, str]) -> tuple[float, Gradients]:
        assert self._training.loss is not None
        for name, switch in self._switches.items():
            switch.state = states.get(name, "trusted")
        kept = torch.get_rng_state()  # dropout and the like draw the same in every comparison
        loss = self._training.loss(step)
        grads = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        torch.set_rng_state(kept)
        found = {
            name: torch.zeros_like(p) if grad is None else grad
            for name, p, grad in zip(self._names, self._parameters, grads, strict=True)
        }
        return float(loss.detach()), found

    def advance(self, step: int, active: Mapping[str, str]) -> SeenStep:
        """Compare, then step along the trusted gradients."""
        loss, trusted = self._gradients(step, {})
        _, noise = self._gradients(step, dict.fromkeys(self._switches, "noise"))
        _, kernel = self._gradients(step, active) if active else (loss, trusted)
        found = pairs.measure_pairs(trusted, noise, kernel)
        for parameter, gradient in zip(self._parameters, trusted.values(), strict=True):
            parameter.grad = gradient
        assert self._training.optimizer is not None
        self._training.optimizer.step()
        self._training.optimizer.zero_grad(set_to_none=True)
        torch.rand(1)  # the generator moves on by a step
        return SeenStep(loss=loss, pairs=found)

    def planted(self, step: int, site: str, gain: float) -> Mapping[str, Pair]:
        """Compare with a relative error planted in a site's trusted answers."""
        _, trusted = self._gradients(step, {})
        _, noise = self._gradients(step, dict.fromkeys(self._switches, "noise"))
        self._switches[site].gain = gain
        _, wrong = self._gradients(step, {})
        self._switches[site].gain = 0.0
        return pairs.measure_pairs(trusted, noise, wrong)


class ModelSubject:
    """Our own model with several candidates, each in a process of its own."""

    isolated = True

    def __init__(
        self, kernels: Mapping[str, Kernel], cell: Cell, settings: Any, *, seed: int, rate: float
    ) -> None:
        self._kernels, self._cell, self._settings = dict(kernels), cell, settings
        self._seed, self._rate = seed, rate

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites with a kernel."""
        return tuple(self._kernels)

    def parts(self, site: str) -> tuple[str, ...]:
        """Return the outputs of a site where there are several; its pass is in its name."""
        from cuassay_loops.sites import find_site, site_problem

        preset: Preset = self._settings.preset
        outputs = site_problem(find_site(site), self._cell.precision, vocab=preset.vocab).outputs
        return tuple(f"output {i}" for i in range(len(outputs))) if len(outputs) > 1 else ()

    @contextlib.contextmanager
    def begin(self) -> Iterator[Experiment]:
        """Start from the cell's weights."""
        yield _ModelExperiment(
            self._kernels, self._cell, self._settings, seed=self._seed, rate=self._rate
        )


class _ModelExperiment:
    def __init__(
        self, kernels: Mapping[str, Kernel], cell: Cell, settings: Any, *, seed: int, rate: float
    ) -> None:
        self._settings = settings
        self._lane = Learner(cell, settings, mode=SiteMode.TRUSTED, root=seed, rate=rate)
        self._kernels = kernels
        ops = self._lane.ops
        ops.kernels, ops.noisy = dict(kernels), set(kernels)
        self._corpus = corpus(cell.data, settings.preset.vocab)
        self._rows = pairs.hot_rows(self._corpus.weights)
        self._seed = seed

    @property
    def groups(self) -> dict[str, Group]:
        """Parameters, and hot rows of the embedding."""
        return pairs.groups(self._lane.model, self._rows)

    def _measured(self, step: int, replaced: Mapping[str, Kernel]) -> tuple[float, Gradients, Any]:
        preset, device = self._settings.preset, self._settings.device
        ids, targets = self._corpus.batch(preset.batch, preset.length, seed=self._seed, step=step)
        batch, ops = (ids.to(device), targets.to(device)), self._lane.ops
        loss, trusted = self._lane.gradients(batch, SiteMode.TRUSTED)
        _, noise = self._lane.gradients(batch, SiteMode.NOISE)
        ops.kernels = {**self._kernels, **replaced}
        ops.active = set(replaced)
        _, kernel = self._lane.gradients(batch, SiteMode.CANDIDATE)
        ops.kernels = dict(self._kernels)
        return loss, trusted, pairs.measure_pairs(trusted, noise, kernel, rows=self._rows)

    def advance(self, step: int, active: Mapping[str, str]) -> SeenStep:
        """Compare, then step along the trusted gradients."""
        chosen = {site: self._partly(site, state) for site, state in active.items()}
        loss, trusted, found = self._measured(step, chosen)
        self._lane.descend(trusted)
        return SeenStep(loss=loss, pairs=found)

    def _partly(self, site: str, state: str) -> Kernel:
        """Return a kernel of which one output alone is the candidate's, if `state` says so."""
        kernel = self._kernels[site]
        if not state.startswith("output "):
            return kernel
        chosen = int(state.removeprefix("output "))

        def mixed(values: Sequence[Value]) -> tuple[torch.Tensor, ...]:
            theirs, ours = kernel(values), self._lane.ops.as_written(site, values)
            return tuple(
                t if i == chosen else o for i, (t, o) in enumerate(zip(theirs, ours, strict=True))
            )

        return mixed

    def planted(self, step: int, site: str, gain: float) -> Mapping[str, Pair]:
        """Compare with a relative error planted in a site's trusted answers."""

        def wrong(values: Sequence[Value]) -> tuple[torch.Tensor, ...]:
            found = self._lane.ops.as_written(site, values)
            return tuple((o.double() * (1.0 + gain)).to(o.dtype) for o in found)

        measured: Mapping[str, Pair] = self._measured(step, {site: wrong})[2]
        return measured
