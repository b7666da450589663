"""Where ranks meet: lateness, moments of collectives, groups, and who waits for whom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from cuassay.catalog import registry
from cuassay.errors import MissingToolError
from cuassay.model.candidate import Candidate
from cuassay.model.device import CPU
from cuassay.model.steps import Moments
from cuassay.sandbox.guest.interface import RankRaisedError, RanksStuckError
from cuassay.sandbox.guest.ranks.member import Member
from cuassay.sandbox.guest.ranks.messages import Packed, Sent, pack, unpack
from cuassay.sandbox.guest.ranks.start import Recipe
from cuassay.sandbox.guest.ranks.world import Timing, World

RECIPE = Recipe(
    candidate=Candidate(name="", sources=(), entry_file="", entry_function=""),
    builder="",
    folder=Path(),
)
Open = Callable[..., World]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Return what opens a world that is closed after the test."""
    worlds: list[World] = []

    def make(function: Callable[..., object], size: int, groups: int = 1) -> World:
        problem = registry.get("all_reduce")
        worlds.append(
            World(size, groups, function=function, problem=problem, recipe=RECIPE, device=CPU)
        )
        return worlds[-1]

    yield make
    for one in worlds:
        one.close()


def _calls(ranks: int, calls: int = 1) -> list[list[list[Sent]]]:
    """Return inputs: of rank r in call c two elements of 10 c + r."""
    return [[[_packed(10.0 * call + rank)] for call in range(calls)] for rank in range(ranks)]


def _packed(value: float) -> Packed:
    sent = pack(torch.full((2,), value))
    assert isinstance(sent, Packed)
    return sent


def _answers(
    world: World, ranks: int, calls: int = 1, timing: Timing | None = None
) -> list[list[float]]:
    """Return the first element of what each call of each rank returned."""
    held = world.run(_calls(ranks, calls), timing or Timing())
    found = []
    for one in held:
        values = []
        for returned in one.returned:
            sent = returned[0][1]
            assert isinstance(sent, Packed)
            values.append(float(torch.as_tensor(unpack(sent))[0]))
        found.append(values)
    return found


def summed(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    dist.all_reduce(y)
    return y


def not_waited(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    dist.all_reduce(y, async_op=True)
    return y


def cleared_early(x: torch.Tensor) -> torch.Tensor:
    y, total = x.clone(), [torch.empty_like(x) for _ in range(dist.get_world_size())]
    begun = dist.all_gather(total, y, async_op=True)
    y.zero_()
    assert begun is not None
    begun.wait()
    return torch.stack(total).sum(0)


def into_what_is_sent(x: torch.Tensor) -> torch.Tensor:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    y = x.clone()
    sent = dist.isend(y, (rank + 1) % ranks)
    came = dist.irecv(y, (rank - 1) % ranks)
    assert sent is not None
    assert came is not None
    sent.wait()
    came.wait()
    return y


def test_calls_in_a_row_give_each_its_own_sum(opened: Open) -> None:
    world = opened(summed, 3)
    for late in (None, 0, 2):
        for moments in Moments:
            timing = Timing(late=late, moments=moments, refill=True)
            assert _answers(world, 3, 3, timing) == [[3.0, 33.0, 63.0]] * 3


def test_a_wait_that_is_missing_shows_where_collectives_are_late(opened: Open) -> None:
    world = opened(not_waited, 2)
    assert _answers(world, 2, timing=Timing(moments=Moments.LATE)) == [[0.0], [1.0]]


def test_a_tensor_that_is_written_too_early_shows_where_it_is_read_late(opened: Open) -> None:
    world = opened(cleared_early, 2)
    assert _answers(world, 2, timing=Timing(moments=Moments.EARLY)) == [[1.0]] * 2
    assert _answers(world, 2, timing=Timing(moments=Moments.LATE)) == [[0.0]] * 2


def test_a_tensor_that_is_received_into_while_it_is_sent_shows_crossed(opened: Open) -> None:
    world = opened(into_what_is_sent, 3)
    right = [[2.0], [0.0], [1.0]]
    assert _answers(world, 3, timing=Timing(moments=Moments.EARLY)) == right
    # Which rank begins first is the system's: on a busy machine one round may not show it.
    crossed = (
        _answers(world, 3, timing=Timing(moments=Moments.CROSSED, late=late))
        for _ in range(20)
        for late in range(3)
    )
    assert any(found != right for found in crossed)


def test_results_and_inputs_are_read_once_all_calls_are_over(opened: Open) -> None:
    kept = torch.zeros(2)

    def reuses(x: torch.Tensor) -> torch.Tensor:
        kept.copy_(x)
        x += 1
        return kept

    held = opened(reuses, 2).run(_calls(2, 2), Timing())
    sent = held[1].returned[0][0][1]
    assert isinstance(sent, Packed)
    assert torch.as_tensor(unpack(sent)).tolist() == [11.0, 11.0]
    left = held[1].inputs[0][0]
    assert isinstance(left, Packed)
    assert torch.as_tensor(unpack(left)).tolist() == [2.0, 2.0]


def test_a_deadlock_ends_at_once_with_who_waits_for_whom(opened: Open) -> None:
    def skips(x: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() == 1:
            return x
        return summed(x)

    with pytest.raises(RanksStuckError) as raised:
        opened(skips, 3).run(_calls(3), Timing())
    told = str(raised.value)
    assert "rank 0 waits in all_reduce (test_world.py:" in told
    assert told.count("for rank 1") == 2
    assert "rank 1 has ended its call" in told
    assert [rank for rank, _ in raised.value.ranks] == [0, 1, 2]


def test_a_collective_that_nobody_joins_is_said_after_the_call(opened: Open) -> None:
    def one_begins(x: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() == 1:
            dist.all_reduce(x.clone(), async_op=True)
        return x

    with pytest.raises(RanksStuckError, match=r"rank 1 waits in all_reduce .* for rank 0, whose"):
        opened(one_begins, 2).run(_calls(2), Timing())


def test_what_a_rank_raises_names_the_rank_and_its_line(opened: Open) -> None:
    def raises(x: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() == 1:
            raise ValueError("no such size")
        return summed(x)

    with pytest.raises(RankRaisedError, match="on rank 1: no such size") as raised:
        opened(raises, 3).run(_calls(3), Timing())
    assert raised.value.record.exception == "ValueError"


def test_a_process_that_ends_is_no_answer(opened: Open) -> None:
    def ends(x: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() == 0:
            os._exit(3)
        return summed(x)

    with pytest.raises(RankRaisedError, match="on rank 0: its process exited with code 3"):
        opened(ends, 2).run(_calls(2), Timing())


def test_a_rank_that_spins_is_named_with_its_line(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spins(x: torch.Tensor) -> torch.Tensor:
        while dist.get_rank() == 1:
            pass
        return summed(x)

    monkeypatch.setattr("cuassay.sandbox.guest.ranks.world._SILENT_S", 1.0)
    with pytest.raises(RanksStuckError) as raised:
        opened(spins, 2).run(_calls(2), Timing())
    assert "rank 1 does not return" in str(raised.value)
    assert "rank 0 waits in all_reduce" in str(raised.value)


def test_a_rank_that_computes_is_waited_for(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def computes(x: torch.Tensor) -> torch.Tensor:
        until = time.process_time() + (0.6 if dist.get_rank() == 1 else 0.0)
        while time.process_time() < until:
            pass
        return summed(x)

    monkeypatch.setattr("cuassay.sandbox.guest.ranks.world._SILENT_S", 0.25)
    monkeypatch.setattr("cuassay.sandbox.guest.ranks.world._PATIENCE", 1000)
    monkeypatch.setattr("cuassay.sandbox.guest.ranks.world._COMPUTED_S", 0.0)
    opened(computes, 2).run(_calls(2), Timing())


_FIRST_MEMORY = """
import sys
import torch
from torch.distributed import _symmetric_memory as symmetric
from tests.unit.sandbox.guest.ranks.test_world import RECIPE, _answers
from cuassay.catalog import registry
from cuassay.model.device import CPU
from cuassay.sandbox.guest.ranks.world import World

def loaded(x):
    before = len(sys.modules)
    symmetric.empty(2)
    return torch.full((2,), float(len(sys.modules) - before))

problem = registry.get("all_reduce")
world = World(2, 1, function=loaded, problem=problem, recipe=RECIPE, device=CPU)
print(max(count for answers in _answers(world, 2) for count in answers))
world.close()
"""


def test_the_first_symmetric_memory_of_a_rank_loads_next_to_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _FIRST_MEMORY], capture_output=True, text=True, check=False
    )
    assert float(ended.stdout) < 10, ended.stderr


def test_two_groups_do_not_mix(opened: Open) -> None:
    def in_group(x: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
        y = x.clone()
        dist.all_reduce(y, group=group)
        return y + 100 * dist.get_rank(group)

    world = opened(in_group, 2, groups=2)
    # Ranks 0 and 2 of the world are one group, 1 and 3 the other.
    assert _answers(world, 4) == [[2.0], [4.0], [102.0], [104.0]]


def test_memory_that_ranks_share_beside_the_group_is_used_in_any_order(
    opened: Open, tmp_path: Path
) -> None:
    """A flag in a file, without a barrier behind it: the late rank reads the next call's."""
    shared = torch.from_file(str(tmp_path / "shared"), shared=True, size=4, dtype=torch.float32)
    shared.zero_()

    def through_memory(x: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() == 0:
            shared.copy_(torch.cat([x, x]))
        dist.barrier()
        return shared[:2].clone()

    world = opened(through_memory, 2)
    assert _answers(world, 2, 2, Timing(late=0, delay_s=60)) == [[0.0, 10.0], [0.0, 10.0]]
    assert _answers(world, 2, 2, Timing(late=1, delay_s=60)) == [[0.0, 10.0], [10.0, 10.0]]


def test_ranks_that_cannot_meet_say_nothing_of_the_kernel(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise RuntimeError("no network")

    monkeypatch.setattr("cuassay.sandbox.guest.ranks.member.open_world", refuses)
    with pytest.raises(MissingToolError, match="cannot meet here: rank 0: RuntimeError: no net"):
        opened(summed, 2)


def test_ranks_that_did_not_all_come_leave_nothing_and_the_others_are_named(
    opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def comes_late(member: Member) -> None:
        if member._place.rank == 1:
            time.sleep(60)

    before = _children()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Member, "join", comes_late)
    monkeypatch.setattr("cuassay.sandbox.guest.ranks.world._JOINS_S", 1.0)
    with pytest.raises(MissingToolError, match=r"not ready after 1 s: rank 1 at .*\.py:"):
        opened(summed, 2)
    assert _children() <= before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ends", ["returns", "raises", "hangs", "is killed"])
def test_no_process_and_no_file_is_left(
    opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: str
) -> None:
    def calls(x: torch.Tensor) -> torch.Tensor:
        if ends == "raises":
            raise ValueError("no")
        if ends == "hangs" and dist.get_rank() == 0:
            dist.barrier()
        if ends == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return x.clone()

    before = _children()  # of other tests too
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    world = opened(calls, 2)
    with suppress(RankRaisedError, RanksStuckError):
        _answers(world, 2)
    world.close()
    assert _children() <= before
    assert list(tmp_path.iterdir()) == []


def _children() -> set[int]:
    """Return the processes that this one has started and that are not over."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {int(one) for one in listed.split()}


def test_a_result_in_its_inputs_memory_is_that_of_its_own_call(opened: Open) -> None:
    def hands_back(x: torch.Tensor) -> torch.Tensor:
        return x

    timing = Timing(refill=True)
    assert _answers(opened(hands_back, 2), 2, 2, timing) == [[0.0, 10.0], [1.0, 11.0]]
