"""Where workers without a GPU come from."""

from __future__ import annotations

from typing import cast

import pytest

from cuassay.judge.run import machine
from cuassay.judge.run.machine import HostNursery
from cuassay.model.device import CPU, CUDA, Device
from cuassay.sandbox.host.nursery import Nursery


class _Nursery:
    """Stands for a nursery: no process is started."""

    def __init__(self, device: Device, host: _Nursery | None = None, **options: object) -> None:
        self.device, self.host, self.closed = device, host, False

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "Nursery", _Nursery)


def _of(given: _Nursery | None) -> HostNursery:
    return HostNursery(cast("Nursery | None", given))


def test_a_nursery_of_a_cpu_is_the_one() -> None:
    given = _Nursery(CPU)
    assert id(_of(given).get()) == id(given)


def test_the_one_that_a_gpus_nursery_started_beside_itself_is_used_and_stays_open() -> None:
    beside = _Nursery(CPU)
    host = _of(_Nursery(CUDA, beside))
    assert id(host.get()) == id(beside)
    host.close()
    assert not beside.closed


@pytest.mark.parametrize("given", [None, _Nursery(CUDA)])
def test_one_is_made_when_it_is_needed_and_closed(given: _Nursery | None) -> None:
    host = _of(given)
    made = host.get()
    assert made.device == CPU
    assert host.get() is made
    host.close()
    assert cast("_Nursery", made).closed
