"""Tokeniser and corpora."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cuassay.errors import UsageError
from cuassay_loops.text import bpe
from cuassay_loops.text.corpus import corpus

_TEXT = b"def low(lower):\n    return lower + low(lowest) - low\n" * 400


@given(st.binary(max_size=200))
def test_any_bytes_come_back(text: bytes) -> None:
    tokenizer = bpe.learn_merges(_TEXT, 280)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_most_frequent_pair_is_merged_first() -> None:
    tokenizer = bpe.learn_merges(_TEXT, 258)
    assert [tokenizer.token(256 + i) for i in range(2)] == [b"lo", b"low"]
    assert tokenizer.vocab == 258


def _replaced(symbols: list[int], pair: tuple[int, int], made: int) -> list[int]:
    """Replace a pair from left to right, as it is defined."""
    out: list[int] = []
    position = 0
    while position < len(symbols):
        if tuple(symbols[position : position + 2]) == pair:
            out.append(made)
            position += 2
        else:
            out.append(symbols[position])
            position += 1
    return out


@pytest.mark.parametrize(
    "text",
    [_TEXT, b"a aa aaa aaaa aaaaa aaaaaaaa aaaaaaaaaaa abab ababab bababa aabbaabb 1111111 xyxyx"],
    ids=["words", "repeated letters"],
)
def test_merges_agree_with_a_plain_trainer(text: bytes) -> None:
    """The trainer with counts kept up to date gives what counting anew gives."""
    words: dict[bytes, int] = {}
    for piece in bpe.pieces(text):
        words[piece] = words.get(piece, 0) + 1
    symbols = {word: list(word) for word in words}
    merges = []
    for made in range(256, 270):
        counts: dict[tuple[int, int], int] = {}
        for word, parts in symbols.items():
            for pair in itertools.pairwise(parts):
                counts[pair] = counts.get(pair, 0) + words[word]
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        symbols = {w: _replaced(p, best, made) for w, p in symbols.items()}
    learnt = bpe.learn_merges(text, 270)
    assert learnt.merges == tuple(merges)
    assert learnt.encode(text) == [one for w in bpe.pieces(text) for one in symbols[w]]


def test_a_user_s_text_is_read_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(_TEXT)
    found = corpus(f"file:{path}", 280)
    assert int(found.tokens.max()) < 280
    assert float(found.weights.sum()) == pytest.approx(1.0)
    assert "Zipf exponent" in found.about
    ids, targets = found.batch(3, 10, seed=1, step=2)
    assert torch.equal(ids[:, 1:], targets[:, :-1])
    assert torch.equal(found.batch(3, 10, seed=1, step=2)[0], ids)
    assert not torch.equal(found.batch(3, 10, seed=1, step=3)[0], ids)


def test_shuffling_keeps_the_counts_and_loses_the_order() -> None:
    real, shuffled = corpus("real", 300), corpus("shuffled", 300)
    torch.testing.assert_close(real.weights, shuffled.weights)
    assert not torch.equal(real.tokens, shuffled.tokens)


def test_synthetic_ids_follow_their_law() -> None:
    assert set(corpus("single", 300).batch(2, 8, seed=0, step=0)[0].flatten().tolist()) == {0}
    zipf = corpus("zipf1.0", 300)
    assert torch.topk(zipf.weights, 3).indices.tolist() == [0, 1, 2]
    assert float(zipf.weights[0] / zipf.weights[9]) == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("name", "message"),
    [("reall", "did you mean 'real'"), ("file:/nowhere", "No such file"), ("", "unknown data")],
)
def test_unknown_data_is_said(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        corpus(name, 300)


def test_a_short_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("short")
    with pytest.raises(UsageError, match="at least 20000"):
        corpus(f"file:{path}", 300)
