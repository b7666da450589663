"""Teacher-forced decoding of ragged batches by several models at once, and what it tells.

Sequences join the batch one after another and leave it as they end, so that batch sizes and
positions vary. Every model keeps a cache of its own and reads the same tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from cuassay_loops.infer.paged import PAGE, PagedCache, decode_token
from cuassay_loops.model.transformer import Transformer
from cuassay_loops.results import Quality
from cuassay_loops.sequential import Pair
from cuassay_loops.text.corpus import Corpus

_STAGGER = 3  # steps between sequences joining


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeStep:
    """One decode step: which sequences at which positions, and each model's logits."""

    number: int
    rows: tuple[int, ...]
    positions: tuple[int, ...]
    logits: Mapping[str, torch.Tensor]


def ragged(text: Corpus, count: int, longest: int, *, seed: int) -> list[torch.Tensor]:
    """Return token ids of `count` sequences whose lengths range from a page to `longest`."""
    lengths = [
        max(PAGE + 1, round(longest * (count - index) / count) + index % 3)
        for index in range(count)
    ]
    ids, _ = text.batch(count, max(lengths), seed=seed, step=0)
    return [ids[index, :length] for index, length in enumerate(lengths)]


def forced(
    models: Mapping[str, Transformer],
    sequences: Sequence[torch.Tensor],
    *,
    poison: float,
    seed: int,
    stagger: int = _STAGGER,
) -> Iterator[DecodeStep]:
    """Decode all sequences with all models, step by step; they join `stagger` steps apart."""
    pages = -(-max(map(len, sequences)) // PAGE) + 1
    caches = {
        name: PagedCache(model, len(sequences), pages, poison=poison, seed=seed)
        for name, model in models.items()
    }
    device = next(iter(models.values())).embed.device
    last = max(stagger * i + len(ids) for i, ids in enumerate(sequences))
    for number in range(last):
        alive = [
            (row, number - stagger * row)
            for row, ids in enumerate(sequences)
            if 0 <= number - stagger * row < len(ids)
        ]
        if not alive:
            continue
        rows, positions = zip(*alive, strict=True)
        ids = torch.stack([sequences[row][at] for row, at in alive]).to(device)
        logits = {}
        for name, model in models.items():
            with model.ops.routes.at(rows, positions):
                logits[name] = decode_token(model, caches[name], ids, rows, positions)
        yield DecodeStep(number=number, rows=rows, positions=positions, logits=logits)


def pairs(
    step: DecodeStep, exact: Sequence[torch.Tensor], *, noise: Sequence[str]
) -> dict[str, Pair]:
    """Compare each sequence's logits with float64; the noise is the worse of the trusted runs."""
    found: dict[str, Pair] = {}
    for index, (row, at) in enumerate(zip(step.rows, step.positions, strict=True)):
        truth = _centred(exact[row][at])
        kernel = _centred(step.logits["kernel"][index])
        pair = pair_of(kernel, truth, [_centred(step.logits[name][index]) for name in noise])
        if pair is not None:
            found[f"sequence {row}"] = pair
    return found


def pair_of(
    kernel: torch.Tensor, truth: torch.Tensor, trusted: Sequence[torch.Tensor]
) -> Pair | None:
    """Compare a kernel's values and trusted ones with float64; None where those tell nothing."""
    truth, kernel = truth.double().cpu().flatten(), kernel.double().cpu().flatten()
    others = [t.double().cpu().flatten() for t in trusted]
    size = float(truth.norm())
    if not size or not all(bool(t.isfinite().all()) for t in others):
        return None
    lean = [float((t - truth) @ truth) / size**2 for t in others]
    finite = bool(kernel.isfinite().all())
    both = float(kernel.norm()) * size
    return Pair(
        ratio=float(kernel.norm()) / size,
        cosine=float(kernel @ truth) / both if both and math.isfinite(both) else math.nan,
        bias=float((kernel - truth) @ truth) / size**2 - lean[0] if finite else math.nan,
        deviation=float((kernel - truth).norm()) / size if finite else math.inf,
        noise_bias=lean[-1] - lean[0],
        noise_deviation=max(float((t - truth).norm()) / size for t in others),
        finite=finite,
    )


def _centred(logits: torch.Tensor) -> torch.Tensor:
    """Return logits less their mean, which soft-max does not see, in float64 on the CPU."""
    wide = logits.double().cpu()
    return wide - wide.mean()


class LogitTally:
    """Adds up what logits say, position by position."""

    def __init__(self) -> None:
        self._kl: list[float] = []
        self._top1: list[float] = []
        self._top5: list[float] = []
        self._loss: list[float] = []

    def add(self, logits: torch.Tensor, exact: torch.Tensor, target: int | None) -> float:
        """Take one position into account; return its divergence from float64 in nats."""
        mine = torch.log_softmax(logits.double().cpu(), dim=-1)
        truth = torch.log_softmax(exact.cpu(), dim=-1)
        kl = float((truth.exp() * (truth - mine)).sum())
        best = set(truth.topk(5).indices.tolist())
        self._kl.append(kl)
        self._top1.append(float(truth.argmax() == mine.argmax()))
        self._top5.append(len(best & set(mine.topk(5).indices.tolist())) / 5)
        if target is not None:
            self._loss.append(-float(mine[target]))
        return kl

    def quality(self) -> Quality:
        """Return the means."""
        loss = _mean(self._loss)
        return Quality(
            kl=_mean(self._kl),
            worst_kl=max(self._kl, default=math.nan),
            top1=_mean(self._top1),
            top5=_mean(self._top5),
            perplexity=math.exp(loss) if loss < 700 else math.inf,
        )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def same_bits(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
    """Whether two runs gave the same values, NaN equal to NaN."""
    return len(first) == len(second) and all(
        torch.equal(a.nan_to_num(nan=1.5e38), b.nan_to_num(nan=1.5e38))
        for a, b in zip(first, second, strict=True)
    )
