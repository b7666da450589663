"""Zones around guarded blocks: what is written into them shows, where it lies and how much."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import pytest

from cuassay.sandbox.guest.memory import guard_zones
from cuassay.sandbox.guest.memory.guard_zones import Damage, GuardedBlock, ZoneLedger, guard_bytes

_GUARD = 64


class Memory:
    """Bytes by address, and which blocks were given back."""

    def __init__(self) -> None:
        self.bytes = bytearray(1 << 17)
        self.given_back: list[int] = []

    def read(self, places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        for address, size in places:
            yield bytes(self.bytes[address : address + size])

    def write(self, places: Iterable[tuple[int, bytes]]) -> None:
        for address, data in places:
            self.bytes[address : address + len(data)] = data

    def free(self, block: GuardedBlock) -> None:
        self.given_back.append(block.address)


@pytest.fixture
def memory() -> Memory:
    return Memory()


def _block(
    memory: Memory, address: int = 1024, *, size: int = 256, label: str = "y"
) -> GuardedBlock:
    return GuardedBlock(address=address, size=size, guard=_GUARD, access=memory, label=label)


def _ledger(*blocks: GuardedBlock) -> ZoneLedger:
    ledger = ZoneLedger()
    for block in blocks:
        ledger.add(block)
    return ledger


def test_zones_hold_a_pattern_and_the_block_is_left_alone(memory: Memory) -> None:
    ledger = _ledger(_block(memory))
    assert not any(memory.bytes[1024:1280])
    assert all(memory.bytes[1024 - _GUARD : 1024])
    assert bytes(memory.bytes[1280 : 1280 + _GUARD]) == ledger.pattern[:_GUARD]
    ledger.inspect()
    assert ledger.damage == []


def test_one_pattern_is_nan_in_every_width_and_the_other_a_number_near_one(memory: Memory) -> None:
    ledger = _ledger(_block(memory))
    for code, count in (("e", 2), ("f", 4), ("d", 8)):
        values = struct.unpack(f"<{64 // count}{code}", ledger.pattern[:64])
        assert all(value != value for value in values)
    ledger.turn(nan=False)
    for code, count in (("f", 4), ("d", 8)):
        values = struct.unpack(f"<{64 // count}{code}", ledger.pattern[:64])
        assert all(1e-5 < value < 10 for value in values)
    assert bytes(memory.bytes[1280 : 1280 + _GUARD]) == ledger.pattern[:_GUARD]


@pytest.mark.parametrize(
    ("address", "zone", "first"),
    [(1280, "after", 0), (1283, "after", 3), (1023, "before", 0), (1000, "before", 23)],
)
def test_a_changed_byte_is_told_by_its_distance_from_the_block(
    memory: Memory, address: int, zone: str, first: int
) -> None:
    ledger = _ledger(_block(memory))
    memory.bytes[address] ^= 1
    ledger.inspect()
    assert ledger.damage == [Damage(zone=zone, label="y", size=256, first=first, changed=1)]
    ledger.inspect()  # the zone was repaired: it is told once
    assert len(ledger.damage) == 1


def test_freed_memory_is_watched_from_the_next_turn_on(memory: Memory) -> None:
    ledger = _ledger(_block(memory))
    ledger.freed(1024)
    memory.bytes[1100] = 7  # between its end and the turn, by whoever still held it
    ledger.turn(nan=True)
    assert ledger.damage == []
    memory.bytes[1030] ^= 1
    ledger.inspect()
    assert ledger.damage == [Damage(zone="freed", label="y", size=256, first=6, changed=1)]
    ledger.freed(4711)  # of nobody: no error


def test_memory_of_a_graph_is_neither_watched_nor_given_back(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_zones, "_KEPT_BYTES", 0)
    block = _block(memory)
    block.pinned = True
    ledger = _ledger(block)
    ledger.freed(1024)
    ledger.turn(nan=True)
    memory.bytes[1030] = 9
    ledger.inspect()
    assert (ledger.damage, memory.given_back) == ([], [])


def test_the_oldest_freed_blocks_are_given_back_beyond_the_budget(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_zones, "_KEPT_BYTES", 600)
    places = [1024, 2048, 4096, 8192]
    ledger = _ledger(*(_block(memory, place) for place in places))
    for place in places[:3]:
        ledger.freed(place)
    ledger.turn(nan=True)
    assert memory.given_back == [1024]
    assert list(ledger.blocks) == places[1:]


def test_damage_is_listed_up_to_a_number_of_zones(memory: Memory) -> None:
    places = range(1024, 1024 + 40 * 512, 512)
    ledger = _ledger(*(_block(memory, place, size=64) for place in places))
    for place in places:
        memory.bytes[place + 64] ^= 1
    ledger.inspect()
    assert len(ledger.damage) == 32


@pytest.mark.parametrize(
    ("size", "bytes_"), [(0, 4096), (4096, 4096), (5000, 5056), (1 << 20, 1 << 16)]
)
def test_a_zone_is_as_long_as_its_block_within_bounds(size: int, bytes_: int) -> None:
    assert guard_bytes(size, least=4096, multiple=64) == bytes_
