"""Byte pairs: merges by frequency, never across pieces, and every text comes back."""

from __future__ import annotations

import itertools
import random

import pytest

from cuassay_loops.text.bpe import BYTES, Tokenizer, learn_merges, pieces

_TEXT = b"the cat sat on the mat, the cat\nat 1234 and 12  at\x80\xff the end\n" * 5


def test_pieces_are_the_whole_text_cut_at_blanks_and_signs() -> None:
    assert b"".join(pieces(_TEXT)) == _TEXT
    assert pieces(b"ab_c 12x,\n  \t!") == [
        b"ab_c", b" ", b"12", b"x", b",", b"\n", b"  ", b"\t", b"!",
    ]  # fmt: skip


def test_the_most_frequent_pair_comes_first_and_ties_by_the_pair() -> None:
    assert learn_merges(b"aab aab aab xy", BYTES + 3).merges == (
        (97, 97), (256, 98), (120, 121),
    )  # fmt: skip
    assert learn_merges(b"cd ab", BYTES + 2).merges == ((97, 98), (99, 100))


def test_a_run_of_one_letter_is_merged_from_the_left() -> None:
    tokenizer = learn_merges(b"aaaaa", BYTES + 1)
    assert tokenizer.encode(b"aaaaa") == [256, 256, 97]


def test_fewer_merges_are_learned_where_the_text_runs_out_of_pairs() -> None:
    tokenizer = learn_merges(b"ab ab", BYTES + 100)
    assert tokenizer.merges == ((97, 98),)
    assert tokenizer.vocab == BYTES + 1


@pytest.mark.parametrize("vocab", [BYTES, BYTES + 5, BYTES + 40])
def test_every_text_comes_back(vocab: int) -> None:
    tokenizer = learn_merges(_TEXT, vocab)
    assert tokenizer.vocab <= vocab
    draw = random.Random(7)
    other = bytes(draw.randrange(256) for _ in range(500))
    for text in (_TEXT, other, b""):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert all(0 <= one < tokenizer.vocab for one in ids)
    assert len(tokenizer.encode(_TEXT)) <= len(_TEXT)


def test_counts_that_merges_change_are_those_of_a_recount() -> None:
    """Each merge is the most frequent pair of the text as the merges before have left it."""
    merges = learn_merges(_TEXT, BYTES + 12).merges
    for number, merge in enumerate(merges):
        before = Tokenizer(merges[:number])
        counts: dict[tuple[int, int], int] = {}
        for piece in pieces(_TEXT):
            ids = before.encode(piece)
            starts = list(itertools.pairwise(ids))
            for pair in starts:
                counts[pair] = counts.get(pair, 0) + 1
        most = max(counts.values())
        assert counts[merge] == most, (number, merge)
