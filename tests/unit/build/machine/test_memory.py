"""What the arena knows of a call whose launches are recorded and not run."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable

import pytest
import torch

from cuassay.build.machine.launch import MachineRecorder
from cuassay.build.machine.memory import StorageArena
from cuassay.build.machine.prove import packed
from cuassay.errors import CannotJudgeError
from cuassay.model.recording import RecordedLaunch, Recording, Region, decode, encode

LAUNCH = RecordedLaunch(
    module=0, kernel="k", grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0, arguments=(),
    regions=(Region(name="index", base=4096, nbytes=8),),
)  # fmt: skip


def _read(read: Callable[[torch.Tensor, torch.Tensor], object]) -> bool:
    """Return whether a call reads results of a launch, given its input and its result."""
    arena, given, made = StorageArena(), torch.arange(1, 5), torch.zeros(4, dtype=torch.int64)
    with arena.watching({"x": given, "y": made}, ()):
        read(given, made)
        assert not arena.results_read, "nothing was launched yet"
        arena.postpone((struct.pack("<Q", made.data_ptr() + 8), struct.pack("<i", 4)))
        read(given, made)
        return arena.results_read


@pytest.mark.parametrize(
    "read",
    [
        lambda x, y: y.sum().item(),
        lambda x, y: bool((x + y).max() > 3),
        lambda x, y: y.clone().tolist(),
        lambda x, y: y.numpy(),
        lambda x, y: y.nonzero(),
        lambda x, y: x[y > 0],
        lambda x, y: torch.equal(x, y),
        lambda x, y: torch.empty(4, dtype=torch.int64).copy_(y)[0].item(),
    ],
)
def test_numbers_of_what_a_launch_writes_are_seen_to_be_read(
    read: Callable[[torch.Tensor, torch.Tensor], object],
) -> None:
    assert _read(read)


@pytest.mark.parametrize(
    "read",
    [
        lambda x, y: x.max().item(),
        lambda x, y: x.tolist(),
        lambda x, y: y.view(2, 2).t().contiguous() * 2 + x.view(2, 2),
        lambda x, y: y[x - 1],
        lambda x, y: (y.shape, y.stride(), y.data_ptr()),
    ],
)
def test_other_reads_are_not(read: Callable[[torch.Tensor, torch.Tensor], object]) -> None:
    assert not _read(read)


def test_a_copy_of_host_code_carries_what_is_not_there() -> None:
    arena, made, other = StorageArena(), torch.zeros(4), torch.zeros(4)
    outside = torch.zeros(4)
    with arena.watching({"y": made, "z": other}, ()):
        arena.copied(outside.data_ptr(), made.data_ptr())
        arena.postpone((struct.pack("<Q", made.data_ptr()),))
        arena.copied(other.data_ptr(), made.data_ptr())
        assert arena.is_pending(other)
        assert not arena.results_read
        arena.copied(outside.data_ptr(), other.data_ptr())
        assert arena.results_read


def test_an_input_that_host_code_writes_is_not_what_it_was() -> None:
    arena, given, other = StorageArena(), torch.arange(4), torch.arange(4)
    with arena.watching({"index": given, "other": other}, ()):
        given.add_(1)
        assert {one.buffer.name: one.changed for one in arena.regions} == {
            "index": True, "other": False,
        }  # fmt: skip
        arena.mark_bytes(other.data_ptr(), 8)
        assert all(one.changed for one in arena.regions)


def test_a_proof_trusts_no_input_that_was_changed_and_no_launch_that_rests_on_results() -> None:
    changed = dataclasses.replace(
        LAUNCH, regions=(dataclasses.replace(LAUNCH.regions[0], changed=True),)
    )
    whole = decode(encode(Recording(modules=("",), launches=(LAUNCH, changed))))
    assert [one.regions[0].changed for one in whole.launches] == [False, True]
    text = packed([({}, whole)], {}).decode()
    assert '"index", 4096' in text
    assert text.count('"index"') == 1, "its values are known by its name"
    recorder = MachineRecorder()
    recorder.start(outline=True)
    recorder.keep("", LAUNCH)
    recorder.note_results_read()
    read = decode(encode(recorder.recording()))
    with pytest.raises(CannotJudgeError, match="takes numbers out of what its kernels write"):
        packed([({}, read)], {})


def _address(tensor: torch.Tensor, offset: int = 0) -> bytes:
    return struct.pack("<Q", tensor.data_ptr() + offset)


@pytest.mark.parametrize("way", ["argument", "structure", "table"])
def test_what_an_earlier_call_kept_is_known_before_regions_are_listed(way: str) -> None:
    """A tensor that code which is not Python's keeps comes back in the next call's arguments."""
    arena, kept, fresh = StorageArena(), torch.zeros(8), torch.ones(4)
    table = torch.tensor([0, kept.data_ptr()])
    with arena.watching({}, ()):
        arena.add(kept, "kept")
        arena.add(table, "table")
    arguments = {
        "argument": (_address(kept, 4),),
        "structure": (struct.pack("<qQ", 3, kept.data_ptr()),),
        "table": (_address(table),),
    }[way]
    with arena.watching({"x": fresh}, ()):
        assert [one.buffer.name for one in arena.regions] == ["x"]
        arena.recall((_address(fresh), *arguments))
        assert "kept" in [one.buffer.name for one in arena.regions]
    del kept, table
    with arena.watching({"x": fresh}, ()):
        arena.recall(arguments)
        assert [one.buffer.name for one in arena.regions] == ["x"], "nobody keeps it any more"


def test_addresses_are_not_looked_for_where_there_is_no_data() -> None:
    """Gigabytes that only have addresses would all be read for each launch."""
    arena, kept, fresh = StorageArena(), torch.zeros(8), torch.ones(4)
    table = torch.tensor([0, kept.data_ptr()])
    with arena.watching({}, ()):
        arena.add(kept, "kept")
    asked: list[int] = []

    def holds(address: int) -> bool:
        asked.append(address)
        return address != table.data_ptr()

    with arena.watching({"x": fresh, "table": table}, ()):
        arena.recall((_address(table),), holds=holds)
        assert {one.buffer.name for one in arena.regions} == {"x", "table"}
        assert set(asked) == {fresh.data_ptr(), table.data_ptr()}
        arena.recall((_address(table),), holds=lambda address: True)
        assert "kept" in {one.buffer.name for one in arena.regions}
