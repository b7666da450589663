"""A partly trained checkpoint: made with trusted kernels on real text, and kept."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b

import torch

from cuassay.home import cache_dir
from cuassay.model import serial
from cuassay.model.device import Device
from cuassay.model.loop import Start
from cuassay_loops.model.operators import SiteMode
from cuassay_loops.results import Cell, Preset
from cuassay_loops.text.corpus import corpus
from cuassay_loops.train import confident
from cuassay_loops.train.lane import Learner

STEPS = {"cpu": 250, "cuda": 600}
_SEED = 20_261_121  # the checkpoint holds no secret: every trial starts from the same one
_FACTORS = tuple(2.0 ** (step / 4) for step in range(9))  # of the logits
_MOST_STATE, _MOST_HEAD = 8.0, 1.0  # the domain that linear_cross_entropy declares
_TOKENS = 2048  # of text, from which the factor is chosen
_VERSION = 1  # raised where the model or its training changes


def weights(
    preset: Preset, *, device: Device, say: Callable[[str], None], steps: int | None = None
) -> dict[str, torch.Tensor]:
    """Return the weights of the partly trained model of a preset, trained now if never before.

    bf16 compute, AdamW, real text. The file is kept under cuassay's home.
    """
    count = steps or STEPS[device.kind]
    key = blake2b(f"{_VERSION} {count} {serial.dumps(preset)}".encode(), digest_size=10).hexdigest()
    path = cache_dir() / "loops" / f"trained-{preset.name}-{key}.pt"
    try:
        found: dict[str, torch.Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError):
        from cuassay_loops.train.cell import Settings

        settings = Settings(
            site="", kernel=no_kernel, preset=preset, steps=count, device=device, seed=_SEED
        )
        cell = Cell(data="real", optimizer="adamw", precision="bf16", seed=0)
        lane = Learner(cell, settings, mode=SiteMode.TRUSTED, root=_SEED, rate=2e-3)
        text = corpus("real", preset.vocab)
        for step in range(count):
            ids, targets = text.batch(preset.batch, preset.length, seed=_SEED, step=step)
            loss = lane.advance((ids.to(device), targets.to(device)))
            if step % 25 == 0:
                say(f"training the checkpoint once: step {step}/{count}, loss {loss:.3f}")
        found = {name: value.cpu() for name, value in lane.model.state_dict().items()}
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(found, temporary)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)  # trained again next time
    return found


def sharpened(
    weights: Mapping[str, torch.Tensor], preset: Preset, *, device: Device
) -> dict[str, torch.Tensor]:
    """Return weights whose logits are so many times larger that most targets have p near 1.

    A model is as sure as that of what it was trained on for long; a checkpoint of some hundred
    steps is of nothing. The factor is the one at which, of a batch of real text, most targets lie
    in the upper range of `confident.RANGES`. The last norm's gain takes it, and the head what is
    left of it where states would leave the domain that linear_cross_entropy declares.
    """
    states, head, targets = _last_states(weights, preset, device=device)
    best, most = (1.0, 1.0), -1
    for gain, more in _shares(float(states.abs().max()), float(head.abs().max())):
        sure = confident.probability([states * gain * more, head, targets, states])
        low, high = confident.RANGES[-1]
        count = int(((sure > low) & (sure <= high)).sum())
        if count > most:
            best, most = (gain, more), count
    found = dict(weights)
    for name, share in zip(("norm", "embed" if preset.tied else "head"), best, strict=True):
        found[name] = found[name] * share
    return found


def _shares(state: float, head: float) -> Iterator[tuple[float, float]]:
    """Yield what multiplies states and head, whose largest elements are given."""
    for factor in _FACTORS:
        gain = max(1.0, min(factor, _MOST_STATE / state))
        more = factor / gain
        if more == 1.0 or head * more <= _MOST_HEAD:
            yield gain, more


def _last_states(
    weights: Mapping[str, torch.Tensor], preset: Preset, *, device: Device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return states of real text behind the last norm, the head (vocab, hidden), targets."""
    from cuassay_loops.train.cell import Settings

    settings = Settings(
        site="", kernel=no_kernel, preset=preset, steps=0, device=device, seed=_SEED,
        weights=weights,
    )  # fmt: skip
    cell = Cell(data="real", optimizer="sgd", precision="bf16", seed=0, start=Start.TRAINED)
    model = Learner(cell, settings, mode=SiteMode.TRUSTED, root=_SEED, rate=0.0).model
    rows = max(1, min(preset.batch, _TOKENS // preset.length))
    ids, targets = corpus("real", preset.vocab).batch(rows, preset.length, seed=_SEED, step=0)
    with torch.no_grad():
        states = model.hidden(ids.to(device)).float()
        head = weights["embed"] if preset.tied else weights["head"].T
    return states, head.to(device), targets.reshape(-1).to(device)


def no_kernel(values: object) -> tuple[torch.Tensor, ...]:
    """Stands where a kernel would; a trusted run calls none."""
    raise AssertionError("a trusted run calls no kernel")
