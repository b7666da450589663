"""One model on its way: its weights, its optimizer, its gradients in any mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from cuassay.inputs.seeds import derive
from cuassay.model.loop import Start
from cuassay_loops.model.operators import Operators, SiteMode
from cuassay_loops.model.transformer import Transformer
from cuassay_loops.results import Cell
from cuassay_loops.sequential import Group
from cuassay_loops.sites import SITES, Phase
from cuassay_loops.train import pairs
from cuassay_loops.train.optimizers import Descent
from cuassay_loops.train.pairs import Gradients
from cuassay_loops.train.stepping import SiteDescent

if TYPE_CHECKING:
    from cuassay_loops.train.cell import Settings

Batch = tuple[torch.Tensor, torch.Tensor]


class Learner:
    """A model that starts from the cell's weights and learns in one mode."""

    def __init__(
        self, cell: Cell, settings: Settings, *, mode: SiteMode, root: int, rate: float
    ) -> None:
        self._settings, self._mode = settings, mode
        self.ops = Operators(
            precision=cell.precision,
            vocab=settings.preset.vocab,
            device=settings.device,
            kernels={settings.site: settings.kernel},
            seed=derive(root, "noise", mode.value) % 2**63,
        )
        torch.manual_seed(derive(root, "weights") % 2**63)
        self.model = Transformer(settings.preset, self.ops, recompute=settings.recompute)
        if cell.start is not Start.SCRATCH and settings.weights is not None:
            self.model.load_state_dict(dict(settings.weights))
        self.model.to(settings.device)
        self._names = [name for name, _ in self.model.named_parameters()]
        self._parameters = list(self.model.parameters())
        self._descent: Descent | SiteDescent = Descent(cell.optimizer, self._parameters, rate)
        site = SITES.get(settings.site)
        if site is not None and site.phase is Phase.OPTIMIZER:
            named = list(self.model.named_parameters())
            odd = bool(cell.seed % 2)  # every second seed takes Nesterov's momentum
            self._descent = SiteDescent(site, self.ops, named, rate, nesterov=odd)
        self._forward: Any = self.model
        if settings.compile_with:
            self._forward = torch.compile(self.model, backend=settings.compile_with)

    def advance(self, batch: Batch) -> float:
        """Take one step in the lane's own mode; return the loss before it."""
        loss, gradients = self.gradients(batch, self._mode)
        self.descend(gradients)
        return loss

    def descend(self, gradients: Gradients) -> None:
        """Change the weights along these gradients, in the lane's own mode."""
        self.ops.mode = self._mode
        self._descent.step(gradients)

    @property
    def stepper(self) -> SiteDescent | None:
        """The optimizer, where its step is the site."""
        return self._descent if isinstance(self._descent, SiteDescent) else None

    def groups(self, rows: Sequence[int]) -> dict[str, Group]:
        """Return what is watched at this lane's state, and these rows of the embedding."""
        base = pairs.groups(self.model, rows)
        return base if self.stepper is None else self.stepper.groups(base)

    def compared(
        self, batch: Batch, modes: Sequence[SiteMode]
    ) -> tuple[float, Gradients, list[Gradients]]:
        """Return loss, the gradients to go on with, and what is compared in each mode.

        That is the gradients, or what the optimizer makes of the trusted ones.
        """
        if self.stepper is None:
            loss, every = self.all_gradients(batch, modes)
            return loss, every[0], every
        loss, gradients = self.gradients(batch, SiteMode.TRUSTED)
        changes = []
        for mode in modes:
            self.ops.mode = mode
            changes.append(self.stepper.changes(gradients))
        return loss, gradients, changes

    def gradients(self, batch: Batch, mode: SiteMode) -> tuple[float, Gradients]:
        """Return the mean loss and the gradient of every parameter, operators in `mode`."""
        ids, targets = batch
        total = targets.numel()
        rows = max(1, len(ids) // self._settings.accumulate)
        self.ops.mode = mode
        loss_sum, sums = 0.0, None
        for micro in range(0, len(ids), rows):
            self.ops.routes.part = micro
            part = slice(micro, micro + rows)
            loss = self._forward(ids[part], targets[part]).sum() / total
            grads = torch.autograd.grad(loss, self._parameters)
            loss_sum += float(loss.detach())
            sums = grads if sums is None else tuple(a + b for a, b in zip(sums, grads, strict=True))
        assert sums is not None
        return loss_sum, dict(zip(self._names, sums, strict=True))

    def all_gradients(
        self, batch: Batch, modes: Sequence[SiteMode]
    ) -> tuple[float, list[Gradients]]:
        """Return the loss and the gradients in several modes at the same weights and batch.

        A site of the backward pass leaves the forward pass as it is: one serves all modes.
        """
        settings = self._settings
        shared = SITES[settings.site].phase is Phase.BACKWARD
        if not shared or settings.accumulate > 1 or settings.recompute:
            found = [self.gradients(batch, mode) for mode in modes]
            return found[0][0], [gradients for _, gradients in found]
        ids, targets = batch
        self.ops.mode = modes[0]
        loss = self._forward(ids, targets).mean()
        every = []
        for mode in modes:
            self.ops.mode = mode
            grads = torch.autograd.grad(loss, self._parameters, retain_graph=mode is not modes[-1])
            every.append(dict(zip(self._names, grads, strict=True)))
        return float(loss.detach()), every
