"""One gate and one secret seed for a run of the zoo."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

from cuassay.sandbox.host.nursery import Nursery
from tests.zoo.judging import Gate


@pytest.fixture(scope="session")
def gate(nursery: Nursery) -> Iterator[Gate]:
    """Return the gate on this machine's CPU.

    What the PTX machine says of Triton kernels has tests of its own, and takes seconds a kernel.
    """
    with Gate("cpu", without=("machine",), nursery=nursery) as opened:
        yield opened


@pytest.fixture(scope="session")
def secret_seed() -> int:
    """Return the seed of this run's trials; $CUASSAY_ZOO_SEED repeats a run."""
    return int(os.environ.get("CUASSAY_ZOO_SEED") or secrets.randbits(62))
