"""Where candidates and references run: the CPU or a GPU. The only reader of a device's text."""

from __future__ import annotations

import re
from typing import Literal, Self

from cuassay.errors import UsageError

_FORM = re.compile(r"cpu|cuda(?::(?P<number>\d{1,3}))?")


class Device(str):
    """cpu, cuda (the current GPU) or cuda:N. It is its text as well: torch and documents take it.

    Raises UsageError for any other text.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        if not _FORM.fullmatch(text):
            raise UsageError(f"device '{text}' is not known; expected cpu, cuda or cuda:N")
        return super().__new__(cls, text)

    @property
    def on_gpu(self) -> bool:
        """Whether it is a GPU."""
        return self.startswith("cuda")

    @property
    def kind(self) -> Literal["cpu", "cuda"]:
        """The kind of processor: what tables of limits are keyed by."""
        return "cuda" if self.on_gpu else "cpu"

    @property
    def number(self) -> int | None:
        """The GPU's number in CUDA's order; None where the text names none."""
        found = _FORM.fullmatch(self)
        number = found["number"] if found else None
        return None if number is None else int(number)


CPU = Device("cpu")
CUDA = Device("cuda")
