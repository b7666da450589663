"""What the model reads: real text that every machine has, a user's file, or synthetic ids."""

from __future__ import annotations

import functools
import json
import math
import os
import secrets
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import torch

from cuassay.errors import UsageError, suggestion
from cuassay.home import cache_dir
from cuassay.inputs.seeds import derive
from cuassay_loops.text import bpe

SYNTHETIC = ("uniform", "zipf1.0", "zipf1.2", "single")
KINDS = ("real", "shuffled", *SYNTHETIC)
# Enough text for the counts to settle, little enough to be tokenised in seconds.
_TEXT_BYTES = {True: 3_000_000, False: 12_000_000}
_SMALL_VOCAB = 4096
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test"}  # no library code


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A stream of token ids, or a law to draw them by where `tokens` is empty.

    `weights` are the probabilities of the ids; `about` says in words what was measured.
    """

    name: str
    vocab: int
    tokens: torch.Tensor
    weights: torch.Tensor
    about: str

    def batch(
        self, rows: int, length: int, *, seed: int, step: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs and targets of one step, each (rows, length) int64 on the CPU."""
        generator = torch.Generator().manual_seed(derive(seed, "batch", step))
        if not len(self.tokens):
            flat = torch.multinomial(
                self.weights, rows * (length + 1), replacement=True, generator=generator
            )
            window = flat.reshape(rows, length + 1)
        else:
            last = len(self.tokens) - length - 1
            starts = torch.randint(0, last, (rows, 1), generator=generator)
            window = self.tokens[starts + torch.arange(length + 1)].long()
        return window[:, :-1].contiguous(), window[:, 1:].contiguous()


@functools.lru_cache(maxsize=16)
def corpus(name: str, vocab: int) -> Corpus:
    """Return a corpus by name: one of KINDS, or `file:PATH` for text of the user's.

    Raises UsageError for another name, and for a file that is missing or too short.
    """
    if name in SYNTHETIC:
        rank = torch.arange(1, vocab + 1, dtype=torch.float64)
        if name == "single":
            weights = torch.zeros(vocab, dtype=torch.float64)
            weights[0] = 1.0
        else:
            weights = rank ** -(float(name.removeprefix("zipf")) if name != "uniform" else 0.0)
        weights /= weights.sum()
        return Corpus(
            name=name,
            vocab=vocab,
            tokens=torch.empty(0, dtype=torch.int32),
            weights=weights,
            about=f"drawn independently; {_described(weights)}",
        )
    if name in ("real", "shuffled"):
        text = standard_library(_TEXT_BYTES[vocab <= _SMALL_VOCAB])
    elif name.startswith("file:"):
        path = Path(name.removeprefix("file:")).expanduser()
        try:
            text = path.read_bytes()
        except OSError as error:
            raise UsageError(f"--data file:{path}: {error.strerror or error}") from None
        if len(text) < 20_000:
            raise UsageError(
                f"--data file:{path} holds {len(text)} bytes, expected at least 20000: a shorter "
                "text "
                "is learned by heart within a run"
            )
    else:
        hint = suggestion(name, KINDS)
        raise UsageError(
            f"unknown data '{name}'{': ' + hint if hint else ''} "
            f"(known: {', '.join(KINDS)}, file:PATH)"
        )
    # The ids of a text; what was learned of it is kept under cuassay's home.
    key = blake2b(text + vocab.to_bytes(8, "little"), digest_size=12).hexdigest()
    path = cache_dir() / "loops" / f"tokens-{key}.json"
    try:
        merges = [(int(a), int(b)) for a, b in json.loads(path.read_text())]
    except (OSError, ValueError, TypeError):
        # The beginning tells the merges; all of it is encoded.
        learned = bpe.learn_merges(text[: min(len(text), 4_000_000)], vocab)
        _keep(path, json.dumps(learned.merges))
        merges = list(learned.merges)
    tokens = torch.tensor(bpe.Tokenizer(merges).encode(text), dtype=torch.int32)
    if name == "shuffled":
        order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(0))
        tokens = tokens[order]
    counts = torch.bincount(tokens.long(), minlength=vocab).double()
    return Corpus(
        name=name,
        vocab=vocab,
        tokens=tokens,
        weights=counts / counts.sum(),
        about=f"{len(tokens):,} tokens of {len(text):,} bytes; {_described(counts)}",
    )


def standard_library(size: int) -> bytes:
    """Return `size` bytes of the Python standard library's source, files in sorted order.

    Raises UsageError where this Python comes without its sources.
    """
    parts, held = [], 0
    for part in _sources():
        parts.append(part[: size - held])
        held += len(parts[-1])
        if held >= size:
            return b"".join(parts)
    if held < size // 10:
        raise UsageError(
            "this Python has no sources of its standard library to read as real text; "
            "give text of your own with --data file:PATH"
        )
    return b"".join(parts)


def _sources() -> Iterator[bytes]:
    root = sysconfig.get_path("stdlib")
    found = []
    for folder, below, names in os.walk(root):
        below[:] = set(below) - _LEFT_OUT  # packages may lie there, tens of thousands of files
        found += [Path(folder) / name for name in names if name.endswith(".py")]
    for path in sorted(found):
        try:
            yield path.read_bytes()
        except OSError:
            continue


def _keep(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        temporary.write_text(text)
        temporary.replace(path)
    except OSError:
        return  # learned again next time


def _described(counts: torch.Tensor) -> str:
    """Return the shares of the five most frequent ids and the slope of Zipf's law."""
    ordered = counts.sort(descending=True).values / counts.sum()
    top = ", ".join(f"{100 * share:.2g}" for share in ordered[:5].tolist())
    # Minus the slope of log(frequency) over log(rank), ranks 10 to 1000, least squares.
    kept = [(math.log(r), math.log(f)) for r, f in enumerate(ordered[:1000].tolist(), 1) if f > 0]
    kept = kept[9:]
    if len(kept) < 2:
        slope = 0.0
    else:
        x, y = (torch.tensor(part, dtype=torch.float64) for part in zip(*kept, strict=True))
        x = x - x.mean()
        slope = -float((x * y).sum() / (x * x).sum())
    return f"the five most frequent ids hold {top} %; Zipf exponent {slope:.2f}"
