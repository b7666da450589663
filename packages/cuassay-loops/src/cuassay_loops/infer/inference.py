"""`cuassay loop infer`: prefill and decode with the kernel at a site, on a partly trained model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from cuassay.errors import UsageError
from cuassay.inputs.seeds import derive, new_root
from cuassay.model.device import Device
from cuassay.model.loop import LoopSettings
from cuassay_loops.infer import decoding, generation, graphed, lengthening
from cuassay_loops.infer.decoding import LogitTally, forced, pairs, same_bits
from cuassay_loops.infer.paged import exact_logits, prefill
from cuassay_loops.infer.reported import decided, reported
from cuassay_loops.kernels import Kernel
from cuassay_loops.model.operators import Operators, SiteMode
from cuassay_loops.model.routing import ForcedRoutes
from cuassay_loops.model.transformer import POSITIONS, Transformer
from cuassay_loops.results import InferReport, Preset
from cuassay_loops.sequential import Group, Left, Monitor
from cuassay_loops.sites import Phase, Site
from cuassay_loops.text.corpus import corpus
from cuassay_loops.train import trained

# Unused cache rows hold this: a weight of zero makes nothing of it, a value that is read much.
_POISONS = (1e30, -7.0)
_LEAN = 2.0**-9  # logits pass many roundings: what leans by less than one is no kernel's fault
_FORWARD = ("linear_cross_entropy", "cross_entropy")
_PARTS = ("trusted", "twin", "kernel")


def infer(
    wanted: LoopSettings,
    *,
    site: Site,
    kernel: Kernel,
    preset: Preset,
    device: Device,
    digest: str,
    seed: int | None,
    say: Callable[[str], None],
) -> InferReport:
    """Decode with the kernel beside trusted runs. Raises UsageError for a site of training."""
    if site.phase in (Phase.BACKWARD, Phase.OPTIMIZER) or site.name in _FORWARD:
        raise UsageError(
            f"site '{site.name}' takes no part in inference: use "
            f"`cuassay loop train --site {site.name}`"
        )
    if not 2 <= wanted.sequences <= 256:
        raise UsageError(f"--sequences {wanted.sequences} is out of range; expected 2 to 256")
    if not 20 <= wanted.tokens <= POSITIONS // 2:
        raise UsageError(
            f"--tokens {wanted.tokens} is out of range; expected 20 to {POSITIONS // 2}"
        )
    work = _Inference(wanted, site, kernel, preset, device=device, seed=seed, say=say)
    return reported(
        work.run,
        doing="decoding",
        wanted=wanted,
        site=site,
        preset=preset,
        device=device,
        digest=digest,
        seed=work.seed,
        lengths=tuple(map(len, work.sequences)),
    )


class _Inference:
    def __init__(
        self,
        wanted: LoopSettings,
        site: Site,
        kernel: Kernel,
        preset: Preset,
        *,
        device: Device,
        seed: int | None,
        say: Callable[[str], None],
    ) -> None:
        self._wanted, self._site, self._kernel = wanted, site, kernel
        self._preset, self._device, self._say = preset, device, say
        self.seed = new_root() if seed is None else seed
        self._weights = trained.weights(preset, device=device, say=say)
        text = corpus((wanted.data or ("real",))[0], preset.vocab)
        self.sequences = decoding.ragged(
            text, wanted.sequences, wanted.tokens, seed=derive(self.seed, "text")
        )

    def model(self, mode: SiteMode) -> Transformer:
        """Return the trained model with its site in a mode."""
        ops = Operators(
            precision=self._wanted.precisions[0],
            vocab=self._preset.vocab,
            device=self._device,
            kernels={self._site.name: self._kernel},
            seed=derive(self.seed, mode.value) % 2**63,
        )
        ops.mode = mode
        model = Transformer(self._preset, ops)
        model.load_state_dict(dict(self._weights))
        return model.to(self._device)

    def run(self, report: InferReport) -> InferReport:
        """Try everything, and decide. Raises KernelFault."""
        models = {
            name: self.model(mode)
            for name, mode in zip(
                _PARTS, (SiteMode.TRUSTED, SiteMode.NOISE, SiteMode.CANDIDATE), strict=True
            )
        }
        report, left, logits = self._decoded(report, models)
        wrong, advice, checks = self._repeated(models, logits)
        if self._site.name == "attention_decode":
            self._say("long contexts")
            dim = self._preset.hidden // self._preset.heads
            longer = lengthening.measure_lengths(
                self._kernel,
                models["trusted"].ops,
                kv_heads=self._preset.kv_heads,
                group=self._preset.heads // self._preset.kv_heads,
                dim=dim,
                longest=self._wanted.longest,
                seed=derive(self.seed, "length"),
            )
            wrong += longer.wrong
            checks["long context"] = longer.told
            report = replace(
                report,
                lengthening=longer.points,
                slope=longer.slope,
                slope_trusted=longer.slope_trusted,
            )
        self._say("decoding from a CUDA graph")
        text = corpus((self._wanted.data or ("real",))[0], self._preset.vocab)
        root = derive(self.seed, "graph")
        graph = graphed.decode_graphed(self._kernel, self._site, models["trusted"], text, seed=root)
        checks["CUDA graph"] = graph.told
        if graph.condition:
            advice.append(f"condition of use: {graph.condition}")
        self._say("free generation")
        told = generation.compare_generation(
            models, self.sequences[0][:16], tokens=32, seed=derive(self.seed, "uniforms")
        )
        report = replace(report, generations=told, checks=checks, advice=tuple(advice))
        measured, trusted = report.quality["kernel"], report.quality["trusted"]
        return decided(
            report,
            min(left, key=lambda each: (each.step, -each.pair.deviation), default=None),
            wrong,
            what="logits",
            place="step",
            undecided=any(math.isnan(quality.kl) for quality in report.quality.values()),
            held=f"logits stay within the band over {sum(report.lengths)} positions: KL to float64 "
            f"{measured.kl:.2g} nats (trusted {trusted.kl:.2g}), perplexity "
            f"{measured.perplexity:.4g} (trusted {trusted.perplexity:.4g})",
        )

    def _decoded(
        self, report: InferReport, models: Mapping[str, Transformer]
    ) -> tuple[InferReport, list[Left], dict[str, list[torch.Tensor]]]:
        """Decode the ragged batch; compare with float64 position by position."""
        # The float64 logits; every model takes the float64 model's experts from now on.
        choices: list[list[torch.Tensor]] = [[] for _ in self.sequences]
        exact = [
            exact_logits(models["trusted"], ids.to(self._device), choices=chosen)
            for ids, chosen in zip(self.sequences, choices, strict=True)
        ]
        for model in models.values():
            model.ops.routes = ForcedRoutes(choices)
        groups = {f"sequence {i}": _group(f"sequence {i}") for i in range(len(self.sequences))}
        monitor = Monitor(groups)
        tallies = {name: LogitTally() for name in ("trusted prefill", "kernel prefill", *_PARTS)}
        kl: dict[str, list[float]] = {"trusted": [], "kernel": []}
        kept: dict[str, list[torch.Tensor]] = {name: [] for name in _PARTS}
        for step in forced(models, self.sequences, poison=_POISONS[0], seed=self.seed):
            self._say(f"decode step {step.number + 1}, {len(step.rows)} sequences")
            monitor.update(step.number, pairs(step, exact, noise=("trusted", "twin")))
            for name in _PARTS:
                kept[name].append(step.logits[name])
                found = [
                    tallies[name].add(step.logits[name][i], exact[row][at], self._target(row, at))
                    for i, (row, at) in enumerate(zip(step.rows, step.positions, strict=True))
                ]
                if name in kl:
                    kl[name].append(sum(found) / len(found))
        left = monitor.left + self._prefilled(models, exact, tallies)
        report = replace(
            report,
            quality={name: tally.quality() for name, tally in tallies.items()},
            kl_trusted=tuple(kl["trusted"]),
            kl_kernel=tuple(kl["kernel"]),
        )
        return report, left, kept

    def _prefilled(
        self,
        models: Mapping[str, Transformer],
        exact: Sequence[torch.Tensor],
        tallies: Mapping[str, LogitTally],
    ) -> list[Left]:
        """Compare whole sequences in one pass with float64, position by position."""
        left: list[Left] = []
        for row, ids in enumerate(self.sequences):
            name = f"sequence {row}"
            monitor = Monitor({name: _group(f"prefill of {name}")})
            whole = {}
            for part in _PARTS:
                with models[part].ops.routes.at([row] * len(ids), range(len(ids))):
                    whole[part] = prefill(models[part], ids.to(self._device))
            for at in range(len(ids)):
                step = decoding.DecodeStep(
                    number=at,
                    rows=(row,),
                    positions=(at,),
                    logits={part: found[at : at + 1] for part, found in whole.items()},
                )
                monitor.update(at, pairs(step, exact, noise=("trusted", "twin")))
                for part in ("trusted", "kernel"):
                    logits, target = whole[part][at], self._target(row, at)
                    tallies[f"{part} prefill"].add(logits, exact[row][at], target)
            left += monitor.left
        return left

    def _target(self, row: int, at: int) -> int | None:
        ids = self.sequences[row]
        return int(ids[at + 1]) if at + 1 < len(ids) else None

    def _repeated(
        self, models: Mapping[str, Transformer], first: Mapping[str, list[torch.Tensor]]
    ) -> tuple[list[str], list[str], dict[str, str]]:
        """Decode again: with other poison in the same processes, and one sequence alone."""
        wrong: list[str] = []
        advice: list[str] = []
        checks: dict[str, str] = {}
        chosen = {name: models[name] for name in ("trusted", "kernel")}
        self._say("again, with other values in unused rows of the cache")
        again: dict[str, list[torch.Tensor]] = {name: [] for name in chosen}
        for step in forced(chosen, self.sequences, poison=_POISONS[1], seed=self.seed + 1):
            for name in chosen:
                again[name].append(step.logits[name])
        equal = {name: same_bits(first[name], again[name]) for name in chosen}
        checks["other pages, other values in unused rows, same sequences again"] = _same(equal)
        if equal["trusted"] and not equal["kernel"]:
            wrong.append(
                "the same sequences decoded again, on other pages and with other values in unused "
                "rows of the cache, give other logits (trusted: the same bits)"
            )
        self._say("one sequence alone")
        alone = {name: self._alone(model) for name, model in chosen.items()}
        held = {
            name: [step[0] for step in first[name][: len(self.sequences[0])]] for name in chosen
        }
        equal = {name: same_bits(held[name], alone[name]) for name in chosen}
        checks["a sequence alone and in a batch"] = _same(equal)
        if equal["trusted"] and not equal["kernel"]:
            advice.append("a sequence alone gives other bits than in a batch (trusted: the same)")
        return wrong, advice, checks

    def _alone(self, model: Transformer) -> list[torch.Tensor]:
        steps = forced({"it": model}, self.sequences[:1], poison=_POISONS[0], seed=self.seed + 2)
        return [step.logits["it"][0] for step in steps]


def _group(name: str) -> Group:
    return Group(name=name, floor=0.0, lean=_LEAN)


def _same(equal: Mapping[str, bool]) -> str:
    words = {True: "the same bits", False: "other bits"}
    return f"kernel {words[equal['kernel']]}, trusted {words[equal['trusted']]}"
