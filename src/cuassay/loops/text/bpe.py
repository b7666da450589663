"""Byte-pair encoding (Sennrich et al., arXiv 1508.07909), trained here in a few seconds.

Text is cut into pieces (a word, a run of blanks, a line's end, punctuation); merges never cross
them. A blank stays a token of its own, as line ends do, so that counts are as skewed as those of
words in text. Every byte is a token, so that any text can be encoded.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

BYTES = 256
_PIECE = re.compile(rb"[A-Za-z_]+|[0-9]+|\n| +|\s|[^\sA-Za-z_0-9]")
Pair = tuple[int, int]


class Tokenizer:
    """Merges in the order that they were learned; token 256 + i is what merge i makes."""

    def __init__(self, merges: Sequence[Pair]) -> None:
        self.merges = tuple(merges)
        self._rank = {pair: rank for rank, pair in enumerate(self.merges)}
        self._known: dict[bytes, tuple[int, ...]] = {}

    @property
    def vocab(self) -> int:
        """How many tokens there are."""
        return BYTES + len(self.merges)

    def encode(self, text: bytes) -> list[int]:
        """Return the token ids of a text."""
        found: list[int] = []
        for piece in pieces(text):
            if piece not in self._known:
                symbols = list(piece)
                while len(symbols) > 1:
                    ranks = [self._rank.get(pair, len(self._rank)) for pair in _pairs(symbols)]
                    best = min(ranks)
                    if best == len(self._rank):
                        break
                    symbols = _replaced(symbols, self.merges[best], BYTES + best)
                self._known[piece] = tuple(symbols)
            found.extend(self._known[piece])
        return found

    def decode(self, ids: Iterable[int]) -> bytes:
        """Return the text of token ids."""
        return b"".join(self.token(number) for number in ids)

    def token(self, number: int) -> bytes:
        """Return the bytes of one token."""
        if number < BYTES:
            return bytes([number])
        left, right = self.merges[number - BYTES]
        return self.token(left) + self.token(right)


def pieces(text: bytes) -> list[bytes]:
    """Cut a text into the pieces that merges stay within."""
    return _PIECE.findall(text)


def learn_merges(text: bytes, vocab: int) -> Tokenizer:
    """Learn the merges of a vocabulary; the most frequent pair first, ties by the pair itself.

    Fewer are learned where the text runs out of pairs.
    """
    counts = Counter(pieces(text))
    words = [list(piece) for piece in counts]
    weight = list(counts.values())
    total: Counter[Pair] = Counter()
    where: defaultdict[Pair, set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair in _pairs(word):
            total[pair] += weight[index]
            where[pair].add(index)
    heap = [(-count, pair) for pair, count in total.items()]
    heapq.heapify(heap)
    merges: list[Pair] = []
    while heap and len(merges) < vocab - BYTES:
        count, pair = heapq.heappop(heap)
        if -count != total[pair]:
            continue  # an entry from before the count changed
        if count == 0:
            break
        merges.append(pair)
        changed = _merge(words, weight, total, where, pair=pair, made=BYTES + len(merges) - 1)
        for other in changed:
            heapq.heappush(heap, (-total[other], other))
    return Tokenizer(merges)


def _merge(
    words: list[list[int]],
    weight: Sequence[int],
    total: Counter[Pair],
    where: defaultdict[Pair, set[int]],
    *,
    pair: Pair,
    made: int,
) -> set[Pair]:
    """Merge a pair in every word that holds it; return the pairs whose counts changed."""
    changed: set[Pair] = set()
    for index in where.pop(pair):
        before = list(_pairs(words[index]))
        words[index] = _replaced(words[index], pair, made)
        after = list(_pairs(words[index]))
        for old in before:
            total[old] -= weight[index]
        for new in after:
            total[new] += weight[index]
            where[new].add(index)
        changed.update(before, after)
    total[pair] = 0
    changed.discard(pair)
    return changed


def _pairs(symbols: Sequence[int]) -> Iterator[Pair]:
    return itertools.pairwise(symbols)


def _replaced(symbols: Sequence[int], pair: Pair, made: int) -> list[int]:
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
