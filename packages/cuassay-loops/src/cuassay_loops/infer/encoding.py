"""`cuassay loop infer --weights minilm`: sentences encoded with a kernel, on real weights.

Sentences of different lengths are padded into batches. States behind every layer, and the
embedding of each sentence, are compared with a float64 encoder; the band is what trusted runs do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from cuassay.errors import UsageError
from cuassay.inputs.seeds import derive, new_root
from cuassay.model.device import Device
from cuassay.model.loop import LoopSettings
from cuassay_loops.infer.decoding import pair_of, same_bits
from cuassay_loops.infer.reported import decided, reported
from cuassay_loops.kernels import Kernel
from cuassay_loops.model import minilm
from cuassay_loops.model.encoder import Encoder, EncoderWeights, pooled
from cuassay_loops.model.operators import Operators, SiteMode
from cuassay_loops.results import InferReport, Preset
from cuassay_loops.sequential import Group, Monitor, Pair
from cuassay_loops.sites import Phase, Site

BOTH = ("embedding", "linear")  # sites of the decoder that the encoder has as well
_BATCH = 4
_LEAN = 2.0**-9  # states pass many roundings: what leans by less than one is no kernel's fault
# A float32 sum of n terms in any order is off by a few units of rounding times sqrt(n).
_FLOAT32_ORDER = 4.0 * 2.0**-24
_MODES = {"trusted": SiteMode.TRUSTED, "twin": SiteMode.NOISE, "kernel": SiteMode.CANDIDATE}
_SENTENCES = 24
_States = list[torch.Tensor]


def wanted_here(wanted: LoopSettings, site: Site) -> bool:
    """Whether a job is one for the encoder. Raises UsageError where the site is none of its."""
    if wanted.weights and wanted.weights != "minilm":
        raise UsageError(f"unknown weights '{wanted.weights}' (known: minilm)")
    here = site.phase is Phase.ENCODER or site.name in BOTH
    if wanted.weights and not here:
        raise UsageError(
            f"site '{site.name}' takes no part in the encoder: leave --weights out, or choose a "
            "site of the encoder (docs/loops.md)"
        )
    return site.phase is Phase.ENCODER or bool(wanted.weights)


def encode_sentences(
    wanted: LoopSettings,
    *,
    site: Site,
    kernel: Kernel,
    weights: EncoderWeights,
    tokenize: Callable[[str], list[int]],
    device: Device,
    digest: str,
    seed: int | None,
    say: Callable[[str], None],
) -> InferReport:
    """Encode sentences with the kernel beside trusted runs. Raises CannotJudgeError."""
    root = new_root() if seed is None else seed
    count = max(_SENTENCES, wanted.sequences)
    longest = min(wanted.tokens, weights.sizes.positions)
    texts = minilm.sentences(count, tokenize, longest=longest, seed=derive(root, "text"))
    work = _Encoding(wanted, site, kernel, weights, device=device, seed=root, say=say)
    sizes = weights.sizes
    preset = Preset(
        name=weights.name,
        vocab=sizes.vocab,
        hidden=sizes.hidden,
        layers=sizes.layers,
        heads=sizes.heads,
        kv_heads=sizes.heads,
        ffn=sizes.ffn,
        batch=_BATCH,
        length=longest,
    )
    return reported(
        lambda report: work.run(report, texts),
        doing="encoding",
        wanted=wanted,
        site=site,
        preset=preset,
        device=device,
        digest=digest,
        seed=root,
        lengths=tuple(map(len, texts)),
    )


class _Encoding:
    def __init__(
        self,
        wanted: LoopSettings,
        site: Site,
        kernel: Kernel,
        weights: EncoderWeights,
        *,
        device: Device,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        self._device, self._seed, self._say = device, seed, say
        self._encoders: dict[str, Encoder] = {}
        for name, mode in _MODES.items():
            ops = Operators(
                precision=wanted.precisions[0],
                vocab=weights.sizes.vocab,
                device=device,
                kernels={site.name: kernel},
                seed=derive(seed, mode.value) % 2**63,
            )
            ops.mode = mode
            self._encoders[name] = Encoder(weights, ops)

    def run(self, report: InferReport, texts: Sequence[torch.Tensor]) -> InferReport:
        """Encode every sentence in batches, again with other padding, and one alone."""
        layers = self._encoders["trusted"].sizes.layers
        groups = ["embeddings", *(f"layer {i + 1}" for i in range(layers)), "sentence"]
        floor = _FLOAT32_ORDER * math.sqrt(self._encoders["trusted"].sizes.ffn)
        monitor = Monitor({g: Group(name=g, floor=floor, lean=_LEAN) for g in groups})
        cosines: dict[str, list[float]] = {name: [] for name in _MODES}
        errors: dict[str, list[Pair]] = {name: [] for name in groups}
        found: dict[str, list[_States]] = {name: [] for name in _MODES}
        for first in range(0, len(texts), _BATCH):
            self._say(f"sentence {first + 1} of {len(texts)}")
            some = texts[first : first + _BATCH]
            for name, encoder in self._encoders.items():
                found[name] += self._batch(encoder, some, filler=0)
        for index, ids in enumerate(texts):
            exact = self._encoders["trusted"].exact(ids.to(self._device))
            every = {name: self._with_sentence(states[index]) for name, states in found.items()}
            told = _compared(groups, self._with_sentence(exact), every)
            monitor.update(index, told)
            for group, pair in told.items():
                errors[group].append(pair)
            for name, states in every.items():
                cosines[name].append(float(states[-1].cpu() @ pooled(exact[-1]).cpu()))
        self._say("again, with other tokens in padding, and a sentence alone")
        padded: dict[str, bool] = {}
        alone: dict[str, bool] = {}
        for name in ("trusted", "kernel"):
            encoder = self._encoders[name]
            again = self._batch(encoder, texts[:_BATCH], filler=encoder.sizes.vocab - 1)
            padded[name] = all(map(same_bits, again, found[name][:_BATCH]))
            alone[name] = same_bits(self._batch(encoder, texts[1:2], filler=0)[0], found[name][1])
        words = {True: "the same bits", False: "other bits"}
        checks = {
            what: f"kernel {words[equal['kernel']]}, trusted {words[equal['trusted']]}"
            for what, equal in (
                ("other tokens in padding", padded),
                ("a sentence alone and in a batch", alone),
            )
        }
        wrong, advice = [], []
        if padded["trusted"] and not padded["kernel"]:
            wrong.append("other tokens in padding give other states (trusted: the same bits)")
        if alone["trusted"] and not alone["kernel"]:
            advice.append("a sentence alone gives other bits than in a batch (trusted: the same)")
        least = ", ".join(f"{name} {min(values):.6f}" for name, values in cosines.items() if values)
        parts = [
            f"{group} {_mean([p.deviation for p in pairs]):.2e} "
            f"({_mean([p.noise_deviation for p in pairs]):.2e})"
            for group, pairs in errors.items()
            if pairs
        ]
        checks |= {
            "least cosine of a sentence's embedding to float64": least,
            "error to float64, kernel (trusted)": ", ".join(parts),
        }
        report = replace(report, checks=checks, advice=tuple(advice))
        return decided(
            report,
            max(
                monitor.left,
                key=lambda each: each.pair.deviation if each.pair.finite else math.inf,
                default=None,
            ),
            wrong,
            what="states",
            place="sentence",
            undecided=not errors["sentence"],
            held=f"states stay within the band over {len(report.lengths)} sentences; least cosine "
            f"to float64: {least}",
        )

    def _batch(
        self, encoder: Encoder, texts: Sequence[torch.Tensor], *, filler: int
    ) -> list[_States]:
        """Return the states of each sentence of a batch; padding holds the token `filler`."""
        length = max(map(len, texts))
        ids = torch.full((len(texts), length), filler, dtype=torch.int64)
        mask = torch.zeros(ids.shape, dtype=torch.bool)
        for row, text in enumerate(texts):
            ids[row, : len(text)], mask[row, : len(text)] = text, True
        states = encoder(ids.to(self._device), mask.to(self._device))
        return [[x[row, : len(text)] for x in states] for row, text in enumerate(texts)]

    def _with_sentence(self, states: _States) -> _States:
        return [*states, pooled(states[-1])]


def _compared(
    groups: Sequence[str], exact: _States, found: Mapping[str, _States]
) -> dict[str, Pair]:
    told: dict[str, Pair] = {}
    for index, group in enumerate(groups):
        trusted = [found[name][index] for name in ("trusted", "twin")]
        pair = pair_of(found["kernel"][index], exact[index], trusted)
        if pair is not None:
            told[group] = pair
    return told


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
