"""Fixtures of several unit test files."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet_guards() -> Iterator[None]:
    """Spare the output what guards log of the faults that a test plants."""
    log = logging.getLogger("cuassay.guard")
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(logging.NOTSET)
