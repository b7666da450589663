"""The operators of the model: trusted, trusted with other rounding, or the candidate's.

Trusted answers are the catalogue's references. Gradients of parameters are kept unrounded in
the trusted run, since the optimizer takes float32: the error of one honest rounding is then
the unit in which a kernel's error is seen. Everything else is rounded as the reference rounds.

The noise twin differs from the trusted run by rounding alone: gradients of parameters are
rounded once to the working dtype, other answers are rounded at random (stochastic rounding,
Croci et al. 2022, doi 10.1098/rsos.211631) after twice the reference's own error was added with
random signs: one for the whole call where the reference rounds before it sums (the logits of the
fused head), since tokens alike then err alike. Float32 answers of a 16-bit model differ by four
units of rounding.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence

import torch

from cuassay.errors import CannotJudgeError
from cuassay.formats.execute import load_reference
from cuassay.model.device import Device
from cuassay.model.problem import Problem
from cuassay_loops.kernels import Kernel, Value
from cuassay_loops.model.routing import Routes
from cuassay_loops.sites import PRECISIONS, SITES, Phase, Site, site_problem

# Bits of a significand, the leading one included.
_DIGITS = {torch.bfloat16: 8, torch.float16: 11, torch.float32: 24}
_OWN_ERROR = 2.0  # shares of the reference's own error that the noise twin adds
_FLOAT32_NOISE = 2.0**-22  # relative noise of a float32 twin: four units of rounding


Heard = Callable[[str, Sequence[Value], Sequence[torch.Tensor]], None]


class SiteMode(enum.StrEnum):
    """Whose answers the model uses at the candidate's site."""

    TRUSTED = "trusted"
    NOISE = "noise"
    CANDIDATE = "candidate"


class Operators:
    """Answers every call of the model. `mode` and `generator` may change between calls.

    `kernels` maps sites to candidates; in mode CANDIDATE those of `active` (default: all) answer.
    `watch` is told every call before it is answered, `heard` afterwards, with its outputs.
    `noisy` names the sites that the noise twin perturbs (default: those with a kernel).
    """

    def __init__(
        self,
        *,
        precision: str,
        vocab: int,
        device: Device,
        kernels: Mapping[str, Kernel] | None = None,
        seed: int = 0,
    ) -> None:
        self.precision, self.device = precision, device
        self.low: torch.dtype = getattr(torch, PRECISIONS[precision])
        self.mode = SiteMode.TRUSTED
        self.kernels = dict(kernels or {})
        self.active = set(self.kernels)
        self.noisy = set(self.kernels)
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.watch: Callable[[str, Sequence[Value]], None] | None = None
        self.heard: Heard | None = None
        self.routes = Routes()
        self._vocab = vocab
        self._references: dict[str, tuple[Problem, Callable[..., object]]] = {}

    def __call__(self, site: str, *values: Value) -> tuple[torch.Tensor, ...]:
        """Return the outputs of a site's operator. Raises what the candidate's kernel raises."""
        if self.watch is not None:
            self.watch(site, values)
        if self.asks(site):
            outputs = self.kernels[site](values)
        elif self.mode is SiteMode.NOISE and site in self.noisy:
            outputs = self._noise(SITES[site], values)
        else:
            outputs = self._trusted(SITES[site], values)
        if self.heard is not None:
            self.heard(site, values, outputs)
        return outputs

    def asks(self, site: str) -> bool:
        """Whether the candidate answers at a site now."""
        return self.mode is SiteMode.CANDIDATE and site in self.active

    def fused(self, *sites: str) -> bool:
        """Whether the model takes the fused path that one of these sites stands for."""
        return any(site in self.kernels for site in sites)

    def reference(self, site: str) -> Callable[..., object]:
        """Return the trusted implementation of a site as written."""
        if site not in self._references:
            problem = site_problem(SITES[site], self.precision, vocab=self._vocab)
            self._references[site] = (problem, self._resized(site, problem))
        return self._references[site][1]

    def _resized(self, site: str, problem: Problem) -> Callable[..., object]:
        if site != "embedding_rmsnorm_backward":
            return load_reference(problem).call
        # The reference's vocabulary is a constant of its file; here it is the model's.
        from cuassay.catalog.embedding import fused_backward

        def call(*values: torch.Tensor) -> object:
            grad, ids, states, rstd, gain = values
            vocab = self._vocab
            return fused_backward(grad, ids, states, rstd=rstd, norm_weight=gain, vocab=vocab)

        return call

    def as_written(self, site: str, values: Sequence[Value]) -> tuple[torch.Tensor, ...]:
        """Return what the reference gives on these values."""
        with torch.no_grad():
            returned = self.reference(site)(*values)
        outputs = returned if isinstance(returned, tuple | list) else (returned,)
        if not all(isinstance(output, torch.Tensor) for output in outputs):
            raise CannotJudgeError(f"the reference of site '{site}' returned no tensors")
        return tuple(outputs)

    def wide(self, site: str, values: Sequence[Value]) -> tuple[torch.Tensor, ...]:
        """Return what the reference gives where nothing is rounded to the working dtype."""
        return self.as_written(site, [_widened(value, self.low) for value in values])

    def _trusted(self, site: Site, values: Sequence[Value]) -> tuple[torch.Tensor, ...]:
        if site.name == "linear" and self.device.on_gpu:
            a, b = values
            assert isinstance(a, torch.Tensor)
            assert isinstance(b, torch.Tensor)
            return (a @ b,)
        if site.name == "muon_step":
            return self.wide(site.name, values)
        if not site.parameters:
            return self.as_written(site.name, values)
        exact = self.wide(site.name, values)
        problem = self._problem(site.name)
        return tuple(
            output if spec.name in site.parameters else output.to(self.low)
            for spec, output in zip(problem.outputs, exact, strict=True)
        )

    def _problem(self, site: str) -> Problem:
        self.reference(site)
        return self._references[site][0]

    def _noise(self, site: Site, values: Sequence[Value]) -> tuple[torch.Tensor, ...]:
        if site.phase is Phase.OPTIMIZER:
            return tuple(map(self._jittered, self.as_written(site.name, values)))
        exact = self.wide(site.name, values)
        if self.low is torch.float32:
            return tuple(self._jittered(output) for output in exact)
        own = self.as_written(site.name, values)
        problem = self._problem(site.name)
        return tuple(
            rounded
            if spec.name in site.parameters
            else self._moved(truth, rounded, together=site.inside)
            for spec, truth, rounded in zip(problem.outputs, exact, own, strict=True)
        )

    def _moved(self, truth: torch.Tensor, rounded: torch.Tensor, *, together: bool) -> torch.Tensor:
        if rounded.dtype is self.low:
            signs = torch.sign(self._uniform(truth[:1, :1] if together else truth))
            moved = truth + _OWN_ERROR * signs * (rounded.to(truth.dtype) - truth)
            return stochastic_round(moved, self.low, self._uniform(truth))
        return self._jittered(rounded)

    def _jittered(self, truth: torch.Tensor) -> torch.Tensor:
        if not truth.is_floating_point():
            return truth
        return truth * (1.0 + _FLOAT32_NOISE * self._uniform(truth))

    def _uniform(self, like: torch.Tensor) -> torch.Tensor:
        """Return numbers drawn uniformly from -1 to 1."""
        drawn = torch.rand(like.shape, generator=self.generator, device=like.device)
        return drawn.mul_(2.0).sub_(1.0)


def stochastic_round(
    values: torch.Tensor, dtype: torch.dtype, uniform: torch.Tensor
) -> torch.Tensor:
    """Round float32 values to `dtype`, up or down with the probability that keeps the mean.

    `uniform` holds numbers drawn uniformly from -1 to 1. Zeros and non-finite values stay.
    """
    _, exponent = torch.frexp(values)
    spacing = torch.ldexp(torch.ones_like(values), exponent - _DIGITS[dtype])
    dithered = (values + 0.5 * spacing * uniform).to(dtype)
    return torch.where(values.isfinite() & (values != 0), dithered, values.to(dtype))


def _widened(value: Value, low: torch.dtype) -> Value:
    if isinstance(value, torch.Tensor) and value.dtype == low and low is not torch.float32:
        return value.float()
    return value
