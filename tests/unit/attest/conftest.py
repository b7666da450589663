"""A certified kernel for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.attest.certified import Certified


@pytest.fixture
def certified(tmp_path: Path) -> Certified:
    return Certified(tmp_path)
