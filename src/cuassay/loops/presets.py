"""Sizes of models that fit a machine, from two CPU cores to one GPU."""

from __future__ import annotations

from cuassay.errors import UnknownNameError
from cuassay.model.loop import Preset


def _preset(name: str, sizes: tuple[int, ...], *, batch: int, length: int) -> Preset:
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
    )


# vocab, hidden, layers, heads, key and value heads, width of the MLP
_ALL = (
    _preset("tiny", (512, 64, 2, 4, 2, 160), batch=8, length=128),
    _preset("small", (2048, 128, 4, 4, 2, 352), batch=16, length=256),
    _preset("medium", (16_384, 512, 2, 8, 4, 1408), batch=32, length=512),
    _preset("large", (32_768, 768, 8, 12, 4, 2048), batch=16, length=1024),  # 104 M parameters
)
PRESETS = {preset.name: preset for preset in _ALL}


def preset(name: str) -> Preset:
    """Return a preset by its name. Raises UnknownNameError."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return PRESETS[name]


def default(device: str) -> Preset:
    """Return the preset for a machine: tiny without a GPU, medium with one."""
    return PRESETS["medium" if device.startswith("cuda") else "tiny"]
