"""Guard zones: what is guarded, which damage is seen, and that nobody notices otherwise."""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch

from cuassay.build import zones
from cuassay.build.machine import memory as machine_memory
from cuassay.model.device import CPU
from cuassay.model.scenario import Poison
from cuassay.model.steps import Mode
from cuassay.sandbox.guest.interface import Around
from cuassay.sandbox.guest.memory import guards, placement
from cuassay.sandbox.guest.memory.guard_allocator import CudaAllocator
from cuassay.sandbox.guest.memory.guard_zones import GuardedBlock, ZoneLedger

_COMPILED: Any = torch._C._dynamo.guards  # what code that torch compiles takes memory of


@pytest.fixture
def around() -> Iterator[Around]:
    with guards.in_process(Mode.GUARDED, CPU) as made:
        yield made


def damage(around: Around) -> list[dict[str, Any]]:
    facts = guards.read(around).facts
    return [json.loads(text) for name, text in facts if name == "damage"]


def write(tensor: torch.Tensor, offset: int, count: int) -> None:
    ctypes.memset(tensor.data_ptr() + offset, 7, count)


def test_fresh_tensors_look_like_any_other(around: Around) -> None:
    with around.call():
        made = {
            "empty": torch.empty(3, 5),
            "strided": torch.empty_strided((4, 3), (1, 8), dtype=torch.bfloat16),
            "like": torch.empty_like(torch.ones(7, 2, dtype=torch.float64).t()),
            "new": torch.ones(2).new_empty((2, 2), dtype=torch.int8),
            "zeros": torch.zeros(3, 3, dtype=torch.bool),
            "full": torch.full((9,), 2.5),
            "clone": torch.arange(6.0).clone(),
        }
    for name, tensor in made.items():
        assert type(tensor) is torch.Tensor, name
        assert tensor.storage_offset() == 0, name
        assert tensor.data_ptr() % 64 == 0, name
    assert made["strided"].stride() == (1, 8)
    assert made["like"].shape == (2, 7)
    assert made["like"].stride() == (1, 2)
    assert not made["zeros"].any()
    assert made["full"].tolist() == [2.5] * 9
    assert made["clone"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert damage(around) == []


def test_a_subclass_of_tensor_is_made_between_guards(around: Around) -> None:
    from torch.nn.attention.bias import causal_lower_right  # loads torch's compiler

    with around.call():
        mask = causal_lower_right(2, 3)
        made = torch.empty(2, 3).fill_(1.0)
    assert (mask.seq_len_q, mask.seq_len_kv) == (2, 3)
    write(made, made.nbytes, 4)
    (found,) = damage(around)
    assert found["changed"] == 4


def test_guarding_does_not_load_the_compiler() -> None:
    code = (
        "import sys, torch\n"
        "from cuassay.model.device import CPU\n"
        "from cuassay.model.steps import Mode\n"
        "from cuassay.sandbox.guest.memory import guards\n"
        "with guards.in_process(Mode.GUARDED, CPU) as around, around.call():\n"
        "    torch.empty(3) + 1\n"
        "sys.exit('torch._dynamo' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_write_past_the_end_and_one_before_the_start_are_measured(around: Around) -> None:
    tensor = placement.allocate((3, 3), torch.float32, CPU, label="y")
    write(tensor, 36, 6)
    write(tensor, -9, 4)
    found = {each["zone"]: each for each in damage(around)}
    assert found["after"] == {"zone": "after", "label": "y", "size": 36, "first": 0, "changed": 6}
    assert (found["before"]["first"], found["before"]["changed"]) == (5, 4)
    assert len(damage(around)) == 2  # each damage once


def test_a_kernel_in_the_ptx_machine_reaches_the_zones_around_its_tensors(around: Around) -> None:
    arena = machine_memory.StorageArena()
    y, plain = placement.allocate((3, 3), torch.float32, CPU, label="y"), torch.zeros(4)
    with arena.watching({"y": y, "plain": plain}, ["y"]):
        seen, other = arena.pointer(y.data_ptr()), arena.pointer(plain.data_ptr())
        assert seen is not None
        assert other is not None
        whole, first = seen.buffer, seen.offset
        assert whole.initialised is not None
        assert (whole.data.size, other.buffer.data.size, other.offset) == (36 + 2 * first, 16, 0)
        assert (first, (whole.alignment + first) % 64) == (4096, y.data_ptr() % 64)
        assert not whole.initialised[first : first + 36].any()
        assert whole.initialised.sum() == 2 * first
        y[1:].zero_()
        assert not whole.initialised[first : first + 12].any()
        assert whole.initialised[first + 12 :].all()
        whole.data[first + 36 : first + 38] = 7  # as a kernel does
    (found,) = damage(around)
    assert (found["zone"], found["first"], found["changed"]) == ("after", 0, 2)


def test_memory_written_after_it_was_freed_is_seen_from_the_next_call_on(around: Around) -> None:
    with around.call():
        tensor = torch.empty(16)
    address = tensor.data_ptr()
    del tensor
    gc.collect()
    with placement.poisoned_memory(Poison.NAN, CPU):
        ctypes.memset(address + 4, 1, 3)
    (found,) = damage(around)
    assert (found["zone"], found["size"], found["first"]) == ("freed", 64, 4)


def test_fresh_memory_and_zones_follow_the_poison(around: Around) -> None:
    seen = {}
    for poison in (Poison.NAN, Poison.NEGATED):
        with placement.poisoned_memory(poison, CPU), around.call():
            tensor = torch.empty(8)
            beyond = ctypes.c_float.from_address(tensor.data_ptr() + 32).value
            seen[poison] = (tensor.isfinite().all().item(), beyond == beyond)
    assert seen == {Poison.NAN: (False, False), Poison.NEGATED: (True, True)}


def test_tensors_may_still_grow(around: Around) -> None:
    with around.call():
        tensor = torch.zeros(4)
        tensor.resize_(100)
        tensor.fill_(1.0)
        out = torch.empty(2)
        with pytest.warns(UserWarning, match="resize"):
            torch.add(torch.ones(50), torch.ones(50), out=out)
    assert tensor[:4].tolist() == [1.0] * 4
    assert out.tolist() == [2.0] * 50
    assert damage(around) == []


def test_results_are_known_by_name(around: Around) -> None:
    with around.call():
        tensor = torch.empty(5)
    placement.name_all([("scale", tensor), ("other", 3)])
    write(tensor, 20, 1)
    assert damage(around)[0]["label"] == "scale"


def test_a_compiled_function_is_compiled_between_guards_and_what_it_takes_is_guarded(
    around: Around,
) -> None:
    compiled: list[object] = []

    def backend(graph: Any, _: object) -> Any:
        compiled.append(graph)
        return graph.forward

    call = torch.compile(lambda x: torch.empty_like(x).copy_(x) + 1, backend=backend)
    with around.call():
        made = [call(torch.ones(4)) for _ in range(2)][-1]
        taken = _COMPILED._empty_strided_cpu((2, 3), (3, 1), torch.float32)
    assert made.tolist() == [2.0] * 4
    assert len(compiled) == 1
    write(taken, 24, 5)
    assert [(found["size"], found["changed"]) for found in damage(around)] == [(24, 5)]


def test_compiled_code_has_plain_memory_again_afterwards() -> None:
    before = _COMPILED._empty_strided_cpu
    with guards.in_process(Mode.GUARDED, CPU):
        assert _COMPILED._empty_strided_cpu is not before
    assert _COMPILED._empty_strided_cpu is before


def test_guards_surround_the_candidate_of_a_process_that_has_them() -> None:
    made = Around(guards=guards.Guards(CPU))
    guards.surround(made)
    assert "guards" in made.entered
    assert isinstance(made.guards, guards.Guards)
    made.guards.close()
    plain = Around()
    guards.surround(plain)
    assert not plain.entered


def test_nothing_is_guarded_in_another_mode() -> None:
    with guards.in_process(Mode.PLAIN, CPU) as made:
        assert placement.guards is None
        assert zones.bytes_at(torch.zeros(3).data_ptr()) == 0
        assert dict(guards.read(made).facts) == {"reach": "nothing"}


class _Memory:
    def __init__(self) -> None:
        self.held = bytearray(1 << 12)

    def read(self, places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        return (bytes(self.held[address : address + size]) for address, size in places)

    def write(self, places: Iterable[tuple[int, bytes]]) -> None:
        for address, data in places:
            self.held[address : address + len(data)] = data

    def free(self, block: GuardedBlock) -> None:
        raise AssertionError("nothing is beyond the budget")


def test_memory_of_a_captured_graph_may_be_written_after_it_was_freed() -> None:
    memory, ledger = _Memory(), ZoneLedger()
    for address, pinned in ((512, True), (2048, False)):
        ledger.add(GuardedBlock(address=address, size=64, guard=128, access=memory, pinned=pinned))
        ledger.freed(address)
    ledger.turn(nan=False)
    stale = bytes(byte ^ 0xFF for byte in memory.held[2048:2054])  # whatever poison lies there
    memory.write([(512, b"replay"), (2048, stale)])
    ledger.inspect()
    assert [(found.zone, found.changed) for found in ledger.damage] == [("freed", 6)]


class _Driver:
    """The driver's functions that the allocator calls, on host memory."""

    def __init__(self) -> None:
        self.blocks: dict[int, Any] = {}
        self.capturing = 0
        self.room = 1 << 20

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *_: 0

    def cuMemAlloc_v2(self, pointer: Any, size: ctypes.c_size_t) -> int:
        if size.value > self.room:
            return 2
        block = ctypes.create_string_buffer(size.value)
        self.blocks[ctypes.addressof(block)] = block
        pointer._obj.value = ctypes.addressof(block)
        return 0

    def cuStreamIsCapturing(self, _: Any, status: Any) -> int:
        status._obj.value = self.capturing
        return 0

    def cuMemsetD8Async(self, where: Any, byte: Any, count: Any, _: Any) -> int:
        ctypes.memset(where.value, byte.value, count.value)
        return 0

    def cuMemcpyDtoHAsync_v2(self, to: Any, where: Any, count: Any, _: Any) -> int:
        ctypes.memmove(to, where.value, count.value)
        return 0

    def cuMemcpyHtoDAsync_v2(self, where: Any, data: bytes, count: Any, _: Any) -> int:
        ctypes.memmove(where.value, data, count.value)
        return 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> _Driver:
    made = _Driver()
    monkeypatch.setattr(
        "cuassay.sandbox.guest.memory.guard_allocator.ctypes.CDLL", lambda name: made
    )
    return made


def test_the_allocator_guards_what_torch_asks_for(driver: _Driver) -> None:
    ledger = ZoneLedger()
    allocator = CudaAllocator(ledger)
    allocator.byte = 0xFF
    allocate, release = allocator._functions
    address = allocate(100, 0, None)
    assert ctypes.string_at(address, 100) == b"\xff" * 100
    ctypes.memset(address + 100, 0, 2)
    release(address, 100, 0, None)
    ledger.turn(nan=True)
    assert [(d.zone, d.first, d.changed) for d in ledger.damage] == [("after", 0, 2)]


def test_the_device_is_waited_for_a_few_times_however_much_is_watched(driver: _Driver) -> None:
    waits: list[Any] = []

    def wait(stream: Any) -> int:
        waits.append(stream)
        return 0

    driver.room = 1 << 26
    driver.__dict__["cuStreamSynchronize"] = wait
    ledger = ZoneLedger()
    allocate, release = CudaAllocator(ledger)._functions
    large, *small = [allocate(size, 0, None) for size in (20 << 20, *(100,) * 50)]
    for address in (large, *small):
        release(address, 0, 0, None)
    ledger.turn(nan=True)
    waits.clear()
    ctypes.memset(large + (9 << 20), 0, 3)
    ctypes.memset(small[7], 0, 1)
    ledger.turn(nan=False)
    assert len(waits) < 8
    found = {(d.size, d.zone, d.first, d.changed) for d in ledger.damage}
    assert found == {(20 << 20, "freed", 9 << 20, 3), (100, "freed", 0, 1)}
    ledger.inspect()
    assert len(ledger.damage) == 2  # every zone holds the other pattern now


def test_a_full_device_is_remembered(driver: _Driver) -> None:
    allocator = CudaAllocator(ZoneLedger())
    assert not allocator.exhausted
    assert allocator._functions[0](1 << 22, 0, None) is None
    assert allocator.exhausted


def test_what_a_capture_allocates_is_pinned(driver: _Driver) -> None:
    ledger = ZoneLedger()
    driver.capturing = 1
    address = CudaAllocator(ledger)._functions[0](8, 0, None)
    assert ledger.blocks[address].pinned
