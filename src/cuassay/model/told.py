"""Numbers as a reader is told them: no more digits than tell them apart."""

from __future__ import annotations

_FEWEST, _EXACT = 6, 17  # digits


def told_apart(got: str, expected: str) -> tuple[str, str]:
    """Return two numbers with the fewest digits, from six on, that tell one from the other.

    Integers, and what is no number, stay as they are.
    """
    try:
        int(got), int(expected)
    except ValueError:
        pass
    else:
        return got, expected
    try:
        first, second = float(got), float(expected)
    except ValueError:
        return got, expected
    for digits in range(_FEWEST, _EXACT + 1):
        pair = f"{first:.{digits}g}", f"{second:.{digits}g}"
        if pair[0] != pair[1]:
            return pair
    return f"{first:.{_FEWEST}g}", f"{second:.{_FEWEST}g}"
