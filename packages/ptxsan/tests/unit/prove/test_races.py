"""Races and barriers for all sizes: safe kernels are proved, planted faults never are."""

from __future__ import annotations

import dataclasses

import pytest
from _pytest.mark import ParameterSet

from ptxsan import nvrtc
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan.prove.intervals import START, Intervals, Iteration
from ptxsan.prove.memory import (
    Proved,
    Refuted,
    Unknown,
    as_recorded,
    is_confirmed,
    prove_call,
)
from ptxsan.prove.renaming import Renaming
from ptxsan.prove.replay import ORDER_FAULTS, replay
from ptxsan.prove.terms import Atoms, Le, of
from ptxsan_support.planted_proofs import PLANTED, twin_of
from ptxsan_support.planting import Expected
from ptxsan_support.proofs import Subject

pytest.importorskip("z3")
pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
# Those that take a second each; all of them are in benchmarks/proofs.py planted.
_QUICK = (
    "tree in dynamic shared memory", "one sum a block",
    "histogram by atomics", "neighbors through shared memory", "stencil with a halo",
)  # fmt: skip


def _planted(*kinds: Expected) -> list[ParameterSet]:
    return [
        pytest.param(kind, subject, id=name)
        for name, kind, subject in PLANTED
        if kind in kinds and name.partition(": ")[0] in _QUICK
    ]


_KERNELS = [one for one in _planted(Expected.SAFE) if ": " not in str(one.id)]


@pytest.mark.parametrize(("kind", "subject"), _KERNELS)
def test_a_kernel_in_order_is_proved_for_all_sizes(kind: Expected, subject: Subject) -> None:
    (answer,) = prove_call(subject.law(), subject.domain)
    assert isinstance(answer.races, Proved)
    assert answer.races.accesses > 0


@pytest.mark.parametrize(("kind", "subject"), _planted(Expected.RACES))
def test_a_planted_race_is_never_proved_in_order(kind: Expected, subject: Subject) -> None:
    law = subject.law()
    (answer,) = prove_call(law, subject.domain, limit_s=20)
    assert isinstance(answer.answer, Proved)
    assert not isinstance(answer.races, Proved)
    if isinstance(answer.races, Refuted):
        (launch,) = law.launches
        seen = [replay(launch, answer.races.sizes, ORDER_FAULTS, seed=one) for one in (None, 1)]
        assert any(one.faults for one in seen)


def test_there_are_enough_planted_faults_each_with_a_twin() -> None:
    faults = [name for name, kind, _ in PLANTED if kind is not Expected.SAFE]
    twins = {name for name, kind, _ in PLANTED if kind is Expected.SAFE}
    assert len(faults) >= 60
    assert set(map(twin_of, faults)) < twins
    assert len({one.source for _, _, one in PLANTED}) > 2 * len(faults)


def test_without_a_proof_of_memory_there_is_none_of_order() -> None:
    (_, _, subject) = next(one for one in PLANTED if one[1] is Expected.MEMORY)
    (answer,) = prove_call(subject.law(), subject.domain)
    assert isinstance(answer.races, Unknown)


def test_a_barrier_behind_an_early_return_is_not_proved() -> None:
    (subject,) = (one for name, _, one in PLANTED if name == "neighbors through shared memory")
    source = subject.source.replace(
        "  s[threadIdx.x] = i < n ? x[i]", "  if (i >= n) return;\n  s[threadIdx.x] = i < n ? x[i]"
    )
    (answer,) = prove_call(dataclasses.replace(subject, source=source).law(), subject.domain)
    assert not isinstance(answer.races, Proved)


def test_named_barriers_and_asynchronous_copies_are_not_followed() -> None:
    (subject,) = (one for name, _, one in PLANTED if name == "neighbors through shared memory")
    (launch,) = subject.law().launches
    for old, new in (("bar.sync \t0;", "bar.sync 1, 256;"), ("ret;", "cp.async.wait_all; ret;")):
        assert old in launch.module
        module = launch.module.replace(old, new, 1)
        law = dataclasses.replace(
            subject.law(), launches=(dataclasses.replace(launch, module=module),)
        )
        (answer,) = prove_call(law, subject.domain)
        assert isinstance(answer.races, Unknown)
        assert answer.races.line


def test_without_a_confirmed_law_the_proof_is_for_what_was_recorded() -> None:
    (subject,) = (one for name, _, one in PLANTED if name == "one sum a block")
    law = dataclasses.replace(subject.law(), confirmed=0)
    assert not is_confirmed(law, subject.domain)
    point, domain = as_recorded(law, subject.domain)
    assert {name: (one.low, one.high) for name, one in domain.axes.items()} == {
        name: (size, size) for name, size in law.witness.sizes.items()
    }
    (answer,) = prove_call(point, domain)
    assert isinstance(answer.answer, Proved)


LOOP = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{
  .reg .b32 %r<9>; .reg .pred %p<9>;
  mov.u32 %r1, 0;
  bar.sync 0;
HEAD:
  add.s32 %r2, %r1, 1;
  bar.sync 0;
  mov.u32 %r1, %r2;
  setp.lt.s32 %p1, %r1, 9;
  @%p1 bra HEAD;
  mov.u32 %r3, %r1;
  ret;
}
"""


def test_iterations_at_an_access_follow_from_the_last_barrier() -> None:
    program = build(parse(LOOP), "k")
    intervals = Intervals(program)
    by = {one.opcode + str(number): number for number, one in enumerate(program.body)}
    head = next(number for name, number in by.items() if name.startswith("add"))
    after = head + 2
    assert len(intervals.barriers) == 2
    assert len(intervals.loops) == 1
    first, following, same = Iteration.FIRST, Iteration.NEXT, Iteration.SAME
    assert intervals.together(head, head) == {((first,), (first,)), ((following,), (following,))}
    assert intervals.together(after, after) == {((same,), (same,))}
    assert intervals.together(head, after) == {((following,), (same,))}
    assert intervals.together(0, after) == set()
    assert intervals.deciding() == {after + 2}
    assert START not in intervals.barriers


def test_another_thread_shares_what_is_the_same_and_nothing_else() -> None:
    atoms = Atoms()
    size, thread = atoms.symbol("n", 1, 100), atoms.symbol("tid", 0, 63)
    other = Renaming(atoms=atoms, shared=frozenset((size,)))
    quotient = atoms.quotient(of(thread) * 7 + 3, of(5))
    renamed = other.poly(of(thread) + of(size) + quotient)
    assert size in renamed.atoms
    assert thread not in renamed.atoms
    assert other.poly(quotient) == other.poly(quotient) != quotient
    assert other.formula(Le(of(size) - 3)) == Le(of(size) - 3)
