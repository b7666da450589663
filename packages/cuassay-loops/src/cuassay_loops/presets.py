"""Sizes of models that fit a machine, from two CPU cores to one GPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cuassay.errors import UnknownNameError, UsageError
from cuassay.model.device import Device
from cuassay_loops.results import Preset
from cuassay_loops.sites import Site

EXPERTS = 16  # as many as the catalogue's moe_gather counts


def _preset(
    name: str, sizes: tuple[int, ...], *, batch: int, length: int, experts: int = 0
) -> Preset:
    vocab, hidden, layers, heads, kv_heads, ffn = sizes
    return Preset(
        name=name,
        vocab=vocab,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        ffn=ffn,
        batch=batch,
        length=length,
        experts=experts,
    )


# vocab, hidden, layers, heads, key and value heads, width of the MLP
_ALL = (
    _preset("tiny", (512, 64, 2, 4, 2, 160), batch=8, length=128),
    _preset("small", (2048, 128, 4, 4, 2, 352), batch=16, length=256),
    _preset("medium", (16_384, 512, 2, 8, 4, 1408), batch=32, length=512),
    _preset("large", (32_768, 768, 8, 12, 4, 2048), batch=16, length=1024),  # 104 M parameters
    # Mixtures of experts: the width is that of one expert.
    _preset("tiny-moe", (512, 64, 2, 4, 2, 48), batch=8, length=128, experts=EXPERTS),
    _preset("small-moe", (2048, 128, 4, 4, 2, 96), batch=16, length=256, experts=EXPERTS),
    _preset("medium-moe", (16_384, 512, 2, 8, 4, 384), batch=32, length=512, experts=EXPERTS),
)
PRESETS = {preset.name: preset for preset in _ALL}


def preset(name: str) -> Preset:
    """Return a preset by its name. Raises UnknownNameError."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return PRESETS[name]


def holding(preset: Preset, sites: Iterable[Site]) -> Preset:
    """Return the preset, or its mixture of experts where one of the sites needs one.

    Raises UsageError where there is none of its size.
    """
    needs = [site.name for site in sites if site.experts]
    if not needs or preset.experts:
        return preset
    found = PRESETS.get(f"{preset.name}-moe")
    if found is None:
        raise UsageError(
            f"site '{needs[0]}' needs a mixture of experts, which preset '{preset.name}' has not; "
            "choose --preset tiny-moe, small-moe or medium-moe"
        )
    return replace(found, vocab=preset.vocab)


def default(device: Device) -> Preset:
    """Return the preset for a machine: tiny without a GPU, medium with one."""
    return PRESETS["medium" if device.on_gpu else "tiny"]
