"""Proofs that what is read was written: twins are proved, faults refuted, changed kernels never
proved where the machine computes with memory that nobody wrote.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import struct
from collections.abc import Mapping
from typing import Any

import pytest

from ptxsan import nvrtc
from ptxsan.prove.law import CallLaw, Launched, LaunchLaw, Observation, laws
from ptxsan.prove.memory import (
    _LARGEST_S,
    LaunchAnswer,
    Proved,
    Refuted,
    Unknown,
    prove_call,
    prove_launch,
)
from ptxsan.prove.replay import UNWRITTEN_FAULTS, Replayed, replay
from ptxsan_support.mutants import mutants
from ptxsan_support.planted_proofs import PLANTED
from ptxsan_support.planted_unwritten import TWINS
from ptxsan_support.planting import Expected
from ptxsan_support.proofs import SAFE, Subject, compiled, subject_of, up

pytest.importorskip("z3")
pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
WRITERS = {one.name for one in TWINS}
FAULTS = [
    (name, one)
    for name, kind, one in PLANTED
    if kind is Expected.INITIALIZED and name.partition(": ")[0] in WRITERS
]
TILED = [one for one in SAFE if one.name.startswith(("rows: mean", "matrix", "transpose"))]


def _answer(subject: Subject) -> LaunchAnswer:
    (found,) = prove_call(subject.law(), subject.domain, values=subject.integers, limit_s=60)
    return found


@pytest.mark.parametrize("subject", [*TWINS, *TILED], ids=lambda one: one.name)
def test_a_kernel_that_writes_all_it_reads_is_proved(subject: Subject) -> None:
    found = _answer(subject)
    assert isinstance(found.initialized, Proved), found.initialized
    assert found.initialized.accesses > 0
    if subject.unwritten:
        (launch,) = subject.law().launches
        assert launch.unwritten == {1: ()}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one[0])
def test_a_read_of_what_nobody_wrote_is_refuted_where_the_machine_shows_it(
    fault: tuple[str, Subject],
) -> None:
    _, subject = fault
    found = _answer(subject).initialized
    assert isinstance(found, Refuted), found
    (launch,) = subject.law().launches
    assert replay(launch, found.sizes, UNWRITTEN_FAULTS).faults
    assert found.finding.accesses[0].ptx_line


@pytest.mark.parametrize(
    "subject",
    [one for one in TWINS if one.name.startswith(("sum", "a slot", "a result", "a trans"))],
    ids=lambda one: one.name,
)
def test_a_changed_kernel_is_not_proved_where_the_machine_finds_a_fault(subject: Subject) -> None:
    law = subject.law()
    every = list(mutants(subject.ptx))
    random.Random(3).shuffle(every)
    for what, text in itertools.islice(every, 8):
        changed = dataclasses.replace(law.launches[0], module=text)
        found = prove_launch(changed, law.scope, subject.domain, limit_s=5).initialized
        if isinstance(found, Proved):
            for sizes in subject.small_sizes(5):
                seen = replay(changed, sizes, UNWRITTEN_FAULTS, limit_s=20)
                assert not seen.faults, f"{what} at {sizes}"


PARTS = """extern "C" __global__ void k(const float* x, float* parts, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  float v = i < n ? x[i] : 0.f;
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0 STORES) parts[blockIdx.x * 4 + threadIdx.x / 32] = v;
}"""
TOTAL = """extern "C" __global__ void k(const float* parts, float* y, int count) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < count) y[i] = parts[i] * 2.f;
}"""


def _two_launches(stores: str, *, reset: bool = False) -> CallLaw:
    """Return the law of parts and their use; `reset`: the host fills the parts before."""
    first, second = compiled(PARTS.replace("STORES", stores)), compiled(TOTAL)
    rows = []
    for n in (1, 2, 5, 31, 64, 100, 128, 129, 255, 256, 257, 300, 511, 512, 513, 900, 1024, 2000):
        blocks = up(n, 128)
        x, parts, y = (1 << 20, 4 * n), (1 << 21, 16 * blocks), (1 << 22, 16 * blocks)
        launches = tuple(
            Launched(
                module=text, kernel="k", grid=(grid, 1, 1), block=(block, 1, 1), shared_bytes=0,
                arguments=(
                    struct.pack("<Q", source[0]), struct.pack("<Q", target[0]),
                    struct.pack("<i", count),
                ),
                regions=(source, target), unwritten=(source is parts and not reset, not reset),
            )
            for text, grid, block, source, target, count in (
                (first, blocks, 128, x, parts, n),
                (second, up(4 * blocks, 64), 64, parts, y, 4 * blocks),
            )
        )  # fmt: skip
        rows.append(Observation(sizes={"n": n}, launches=launches))
    (law,) = laws(rows)
    return law


SUMS = subject_of("sums", "", "n", lambda s: 1, 1, "p:4", "n")


def test_what_an_earlier_launch_writes_is_written() -> None:
    law = _two_launches("")
    assert [one.unwritten for one in law.launches] == [{1: ()}, {0: ((0, 1),), 1: ()}]
    for one in prove_call(law, SUMS.domain, limit_s=60):
        assert isinstance(one.initialized, Proved), one.initialized
    missing = _two_launches("&& i < n")
    found = prove_call(missing, SUMS.domain, limit_s=60)[1].initialized
    assert isinstance(found, Unknown), "what the launch before left out is not written"
    filled = _two_launches("&& i < n", reset=True)
    assert isinstance(prove_call(filled, SUMS.domain, limit_s=60)[1].initialized, Proved)


def test_a_launch_is_run_once_for_all_doubts_of_the_same_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[object] = []

    def without_fault(
        law: LaunchLaw, sizes: Mapping[str, int], kinds: object, **given: Any
    ) -> Replayed:
        if given.get("limit_s") != _LARGEST_S:  # of a doubt
            how = (given.get(name) for name in ("seed", "blocks", "data"))
            seen.append((tuple(sorted(sizes.items())), kinds, *how))
        return Replayed(sizes=sizes)

    monkeypatch.setattr("ptxsan.prove.memory.replay", without_fault)
    subject = next(one for _, one in FAULTS if one.name == "sum of a tile with a tail")
    (answer,) = prove_call(
        subject.law(), dataclasses.replace(subject.domain, limit=1 << 20), limit_s=120
    )
    assert isinstance(answer.initialized, Unknown)
    assert seen
    assert len(seen) == len(set(seen))
