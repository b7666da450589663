"""What is closed at the end of a `with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A class with `close`, which a `with` block calls however it ends."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Give back what is held; harmless when repeated."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
