"""Proofs of what PTX calls by other names: state spaces, loads that trust memory, parameters."""

from __future__ import annotations

import pytest

from ptxsan import nvrtc
from ptxsan.prove.memory import Proved, Refuted, prove_call
from ptxsan.prove.replay import replay
from ptxsan_support import planted_spaces
from ptxsan_support.planted_proofs import PLANTED, twin_of
from ptxsan_support.planting import Expected
from ptxsan_support.proofs import Subject

pytest.importorskip("z3")
pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
KERNELS = {one.name for one in planted_spaces.TWINS}
EVERY = {name: (kind, one) for name, kind, one in PLANTED}
FAULTS = [name for name in EVERY if name.partition(": ")[0] in KERNELS and twin_of(name) in EVERY]
# Of other planted faults a twin of each kind; benchmarks/proofs.py planted has them all.
SAMPLE = (
    "elementwise: at one size in a million", "stencil with a halo: a halo too short",
    "neighbors through shared memory: a barrier behind a guard",
    "a slot a warp: idle warps store nothing",
)  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_not_proved_absent_and_its_twin_is_safe(name: str) -> None:
    kind, subject = EVERY[name]
    (found,) = prove_call(subject.law(), subject.domain, limit_s=20)
    answers = {
        Expected.MEMORY: found.answer,
        Expected.RACES: found.races,
        Expected.INITIALIZED: found.initialized,
    }
    answer = answers[kind]
    assert not isinstance(answer, Proved)
    if isinstance(answer, Refuted):
        assert replay(subject.law().launches[0], answer.sizes).faults
    _stays_safe(EVERY[twin_of(name)][1])


@pytest.mark.parametrize("name", SAMPLE)
def test_a_twin_of_each_kind_is_safe(name: str) -> None:
    assert EVERY[name][0] is not Expected.SAFE
    _stays_safe(EVERY[twin_of(name)][1])


def _stays_safe(subject: Subject) -> None:
    (found,) = prove_call(subject.law(), subject.domain, limit_s=20)
    assert isinstance(found.answer, Proved), found.answer
    assert not isinstance(found.races, Refuted)
    assert not isinstance(found.initialized, Refuted)
