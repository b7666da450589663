"""What a kernel did to a loop: cells of the matrix, their curves, and the reports. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cuassay.model.loop import Start
from cuassay.model.verdict import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The sizes of a model and its batches. `kv_heads` divides `heads`; tokens are batch * length.

    `softcap` bounds attention scores (0: not at all), `window` is the number of latest keys that
    a query sees (0: all), `tied` uses the embedding as the head's weight. With `experts` every MLP
    is a mixture of that many, two a token, each `ffn` wide.
    """

    name: str
    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    batch: int
    length: int
    softcap: float = 0.0
    window: int = 0
    tied: bool = False
    experts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One training run of the matrix: data, optimizer, precision, number of the seed, start."""

    data: str
    optimizer: str
    precision: str
    seed: int
    start: Start = Start.SCRATCH

    @property
    def name(self) -> str:
        """The cell in words that may name a file."""
        data = "".join(c if c.isalnum() or c in ".-" else "_" for c in self.data)
        return f"{data}-{self.optimizer}-{self.precision}-{self.seed}-{self.start.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Values a step: losses of the trusted run, of its noise twin and of the candidate's.

    `bias` is the signed bias of the gradient of `group` at the same state, `deviation` its
    relative deviation, `allowed` the deviation that the band allows. Curves may be thinned:
    `steps` numbers their points.
    """

    steps: tuple[int, ...] = ()
    trusted: tuple[float, ...] = ()
    noise: tuple[float, ...] = ()
    candidate: tuple[float, ...] = ()
    group: str = ""
    paired_steps: tuple[int, ...] = ()
    bias: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    allowed: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """How one run went. `step` is the first at which a gradient left the band, None if none did.

    `parameter` and `rows` say where; `ratio`, `cosine`, `bias` and `deviation` are those of that
    group at that step: norm over the trusted norm, cosine, projection on the trusted gradient
    less one, norm of the difference over the trusted norm. `noise` is the deviation of trusted
    from trusted. `evidence` is the log10 of the sequential test's value, `needed` its limit.
    `failure` says how the candidate ended the run; `undecided` why nothing follows from it.
    """

    cell: Cell
    learning_rate: float
    steps: int
    loss_left_band: bool = False
    gradient_left_band: bool = False
    step: int | None = None
    loss_step: int | None = None
    parameter: str = ""
    rows: tuple[int, ...] = ()
    ratio: float = 1.0
    cosine: float = 1.0
    bias: float = 0.0
    deviation: float = 0.0
    noise: float = 0.0
    evidence: float = 0.0
    needed: float = 0.0
    how: str = ""  # deviation | bias | not finite
    loss_trusted: float = 0.0
    loss_noise: float = 0.0
    loss_candidate: float = 0.0
    failure: str = ""
    undecided: str = ""
    duration_s: float = 0.0
    curves: Curves = Curves()

    @property
    def left(self) -> bool:
        """Whether the candidate is at fault in this run."""
        return self.gradient_left_band or bool(self.failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicates:
    """A large batch of few samples many times over: whose gradients differ from their equals'.

    `wrong` are samples, `spread` is the largest distance of one from the median, relative to its
    norm, `noise_spread` that of trusted kernels with other rounding. `parameter` is the one whose
    gradient differs most from the samples' alone, with its deviation and the twin's.
    """

    precision: str
    start: Start
    samples: int
    draws: int = 0
    wrong: tuple[int, ...] = ()
    spread: float = 0.0
    noise_spread: float = 0.0
    parameter: str = ""
    deviation: float = 0.0
    noise: float = 0.0
    failure: str = ""
    undecided: str = ""

    @property
    def left(self) -> bool:
        """Whether the candidate is at fault."""
        return bool(self.wrong or self.parameter or self.failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainReport:
    """`cuassay loop train`: the matrix and what follows from it.

    `false_alarm_rate` is the probability, per cell, that a correct kernel leaves the band.
    `text` holds measured properties of the corpora in words, by data name.
    """

    decision: Decision
    reason: str
    site: str
    problem: str
    candidate: str
    digest: str
    device: str
    preset: Preset
    steps: int
    false_alarm_rate: float
    seed: int
    cells: tuple[CellResult, ...]
    planned: int
    duplicates: tuple[Duplicates, ...] = ()
    isolated: bool = True
    options: Mapping[str, str] = field(default_factory=dict)
    text: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    duration_s: float = 0.0
    kept: str = ""
    resumed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRun:
    """One run of `cuassay loop blame`: trusted kernels but for `active`; where it left the band.

    `part` narrows one site: its forward or backward pass, or one output by its number.
    """

    active: tuple[str, ...]
    left: bool
    part: str = ""
    step: int | None = None
    group: str = ""
    deviation: float = 0.0
    noise: float = 0.0
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameReport:
    """Which kernel makes a run leave the band, or that none does, with the power to have seen it.

    `search` counts the runs that found the site, `runs` holds all of them in order. `power` maps
    a site to the smallest error of its gain that would have been seen. `diverged` is the step at
    which the run diverges with trusted kernels as well.
    """

    decision: Decision
    reason: str
    config: str
    sites: tuple[str, ...]
    culprit: str = ""
    part: str = ""
    search: int = 0
    runs: tuple[PairedRun, ...] = ()
    steps: int = 0
    witness: str = "gradients"  # gradients at the same state | losses
    diverged: int | None = None
    losses: tuple[float, ...] = ()
    power: Mapping[str, float] = field(default_factory=dict)
    false_alarm_rate: float = 0.0
    isolated: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """How one run's logits compare with the float64 model's, over all decoded positions.

    `kl` is the mean divergence in nats of the run from float64, `worst_kl` the largest of a
    position, `top1` and `top5` shares of positions with the same best token and of shared best
    five, `perplexity` that of the text.
    """

    kl: float
    worst_kl: float
    top1: float
    top5: float
    perplexity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthPoint:
    """Relative error of attention at one context length: the kernel's and the reference's."""

    length: int
    error: float
    trusted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Tokens generated freely: how many agree with the trusted run before the first that differs.

    `margin` is the trusted run's distance of its choice from the next best (greedy, in logits)
    or of the shared uniform number from the nearest border (sampled), where they part.
    """

    kind: str  # greedy | sampled
    tokens: int
    agreed: int
    margin: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InferReport:
    """`cuassay loop infer`: what a kernel does to decoding, and what follows from it.

    `quality` is keyed trusted prefill, trusted, twin, kernel. `step` and `group` say where the
    kernel's logits left the band of trusted ones; `checks` holds what else was tried with its
    outcome in words; `kl_trusted` and `kl_kernel` are means a decode step.
    """

    decision: Decision
    reason: str
    site: str
    problem: str
    candidate: str
    digest: str
    device: str
    preset: Preset
    precision: str
    seed: int
    lengths: tuple[int, ...]
    false_alarm_rate: float
    quality: Mapping[str, Quality] = field(default_factory=dict)
    step: int | None = None
    group: str = ""
    deviation: float = 0.0
    noise: float = 0.0
    kl_trusted: tuple[float, ...] = ()
    kl_kernel: tuple[float, ...] = ()
    lengthening: tuple[LengthPoint, ...] = ()
    slope: float | None = None
    slope_trusted: float | None = None
    generations: tuple[Generation, ...] = ()
    checks: Mapping[str, str] = field(default_factory=dict)
    advice: tuple[str, ...] = ()
    failure: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    duration_s: float = 0.0
