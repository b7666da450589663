"""Byte-pair encoding (Sennrich et al., arXiv 1508.07909), trained here in a few seconds.

Text is cut into pieces (a word, a run of blanks, a line's end, punctuation); merges never cross
them. A blank stays a token of its own, as line ends do, so that counts are as skewed as those of
words in text. Every byte is a token, so that any text can be encoded. A piece is a str with a
character for each token, in which Python merges pairs as it replaces text, from left to right.
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
        self._rank = {chr(a) + chr(b): rank for rank, (a, b) in enumerate(self.merges)}
        self._known: dict[bytes, tuple[int, ...]] = {}

    @property
    def vocab(self) -> int:
        """How many tokens there are."""
        return BYTES + len(self.merges)

    def encode(self, text: bytes) -> list[int]:
        """Return the token ids of a text."""
        cut, none = pieces(text), len(self._rank)
        for piece in set(cut) - self._known.keys():
            word = piece.decode("latin-1")
            while len(word) > 1:
                best = min(_pairs(word), key=lambda pair: self._rank.get(pair, none))
                if best not in self._rank:
                    break
                word = word.replace(best, chr(BYTES + self._rank[best]))
            self._known[piece] = tuple(map(ord, word))
        return list(itertools.chain.from_iterable(map(self._known.__getitem__, cut)))

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
    words = [piece.decode("latin-1") for piece in counts]
    weight = list(counts.values())
    total: Counter[str] = Counter()
    where: defaultdict[str, set[int]] = defaultdict(set)
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
        merges.append((ord(pair[0]), ord(pair[1])))
        made = chr(BYTES + len(merges) - 1)
        for other in _merge(words, weight, total, where, pair=pair, made=made):
            heapq.heappush(heap, (-total[other], other))
    return Tokenizer(merges)


def _merge(
    words: list[str],
    weight: Sequence[int],
    total: Counter[str],
    where: defaultdict[str, set[int]],
    *,
    pair: str,
    made: str,
) -> set[str]:
    """Merge a pair in every word that holds it; return the pairs whose counts changed."""
    left, right = pair[0], pair[1]
    changed: set[str] = set()
    for index in where.pop(pair):
        count, parts = weight[index], words[index].split(pair)
        words[index] = made.join(parts)
        # A merge changes the pairs with its neighbors alone, which may have been merged as well.
        replaced: list[tuple[str, str]] = []
        for number, (before, after) in enumerate(itertools.pairwise(parts)):
            if before:
                replaced.append((before[-1] + left, before[-1] + made))
            elif number:
                replaced.append((right + left, made + made))
            if after:
                replaced.append((right + after[0], made + after[0]))
        for old, new in replaced:
            total[old] -= count
            total[new] += count
            where[new].add(index)
            changed.update((old, new))
    total[pair] = 0
    changed.discard(pair)
    return changed


def _pairs(word: str) -> Iterator[str]:
    return map(str.__add__, word, word[1:])
