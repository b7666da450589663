"""Every random number comes from a seed derived from one root along a path of names."""

from __future__ import annotations

import hashlib
import secrets


def derive(root: int, *path: object) -> int:
    """Return a 63-bit seed from a root seed and a path of names and numbers.

    Parts are hashed length-delimited, so ("ab", "c") and ("a", "bc") give different seeds.
    """
    hasher = hashlib.blake2b(digest_size=8, person=b"cuassay-seed")
    for part in (root, *path):
        text = str(part).encode()
        hasher.update(len(text).to_bytes(8, "little"))
        hasher.update(text)
    return int.from_bytes(hasher.digest(), "little") >> 1


def new_root() -> int:
    """Return a secret root seed of 62 bits, which a store and JSON hold as they are."""
    return secrets.randbits(62)
