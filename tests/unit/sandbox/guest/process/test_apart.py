"""Processes that hold nothing of cuassay: what they send is what a worker sends, or is refused."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cuassay.model.candidate import Convention
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, Scalar, ScalarSpec
from cuassay.model.reached import Exchange, Instead, Spoiled
from cuassay.model.reports import Holdings
from cuassay.model.scenario import (
    Allocate,
    Call,
    HashResult,
    Poison,
    PoisonFreed,
    ReadInputs,
    ReadResult,
    Refill,
    Release,
    Scenario,
    Step,
)
from cuassay.model.steps import CallOften, Mode
from cuassay.model.trace import Exited, Finished, Killed, StepDone, StepRaised
from cuassay.sandbox import processes
from cuassay.sandbox.guest.items import DTYPES, digest
from cuassay.sandbox.guest.process import apart
from cuassay.sandbox.host.apart import Apart, NotLoadedError, can_take
from cuassay.sandbox.host.apart_memory import SharedArguments, read_described
from cuassay.sandbox.host.handle import GoneError, WorkerHandle
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.ran import Ran
from tests.support import trees
from tests.support.workers import LIMITS, candidate, problem, tensor_spec

_CALL = (Allocate(slot="a", case=0), Call(slot="a", result="r"), ReadResult(result="r"))


@pytest.fixture(scope="module")
def cpu(nursery: Nursery) -> Nursery:
    return nursery


@contextmanager
def opened(
    source: str,
    cpu: Nursery,
    asked: Problem | None = None,
    convention: Convention = Convention.RETURNS,
) -> Iterator[Apart]:
    """Yield the processes of a candidate."""
    made = candidate(source, convention)
    with Apart(made, asked or problem(), device=CPU, nursery=lambda: cpu, limits=LIMITS) as apart:
        yield apart


def scenario(*steps: Step, cases: int = 1, mode: Mode = Mode.PLAIN) -> Scenario:
    """Return a scenario over cases of ten elements."""
    made = tuple(Case(label=str(number), axes={"n": 10}) for number in range(cases))
    return Scenario(label="apart", cases=made, steps=steps or _CALL, mode=mode, timeout_s=60.0)


def values(case: Case) -> Mapping[str, torch.Tensor | Scalar]:
    """Return ten numbers that count from 100 times the case's number."""
    return {"x": torch.arange(10.0) + 100 * int(case.label)}


def tensor(run: Ran, index: int, number: int = 0) -> torch.Tensor:
    """Return a tensor that a step sent."""
    record = run.result.records[index]
    assert isinstance(record, StepDone), record
    return run.tensor(record.items[number])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x + 1", torch.arange(10.0) + 1),
        ("torch.stack([x, x + 1]).t()", torch.arange(10.0)[:, None] + torch.arange(2.0)),
        ("x[::2]", torch.arange(0.0, 10.0, 2.0)),
        ("x.sum().expand(4)", torch.full((4,), 45.0)),
        ("x.sum()", torch.tensor(45.0)),
        ("x[:0]", torch.empty(0)),
        ("x > 4", torch.arange(10.0) > 4),
        ("x.to(torch.float8_e4m3fn)", torch.arange(10.0).to(torch.float8_e4m3fn)),
        ("torch.complex(x, x).conj()", torch.complex(torch.arange(10.0), -torch.arange(10.0))),
        ("torch.nn.Parameter(x + 1)", torch.arange(10.0) + 1),
        ("x.requires_grad_()", torch.arange(10.0)),
    ],
)  # fmt: skip
def test_results_of_every_layout_arrive(
    cpu: Nursery, expression: str, expected: torch.Tensor
) -> None:
    with opened(f"def run(x): return {expression}", cpu) as apart:
        run = apart.run(scenario(), values, fresh=True)
        assert run.result.termination == Finished()
        found = tensor(run, 2)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        same = expected.resolve_conj().contiguous()
        assert digest([found.detach()]) == digest([same])


def at_once(number: int) -> Scenario:
    """Return a scenario that makes a slot, calls and reads for each of some cases."""
    steps = [
        step
        for case in range(number)
        for step in (
            Allocate(slot=f"a{case}", case=case),
            Call(slot=f"a{case}", result=f"r{case}"),
            ReadResult(result=f"r{case}"),
        )
    ]
    return dataclasses.replace(scenario(*steps, cases=number), at_once=True)


@pytest.mark.parametrize(
    "source",
    [
        "def run(x): return x + 1",
        "def run(x): return x.add_(1)",
        # A read that needs the process, while replies of later calls are on their way
        "import torch\ndef run(x): return torch.complex(x + 1, x).conj().real",
        # Each result where the one before lay: asked for one by one then
        "import torch\nkept = torch.empty(10)\ndef run(x): return torch.add(x, 1, out=kept)",
    ],
)
def test_calls_at_once_return_what_they_return_one_by_one(cpu: Nursery, source: str) -> None:
    with opened(source, cpu) as apart:
        for _ in range(2):
            run = apart.run(at_once(40), values, fresh=False)
            assert run.result.termination == Finished()
            assert len(run.result.records) == 120
            for case in range(40):
                expected = torch.arange(10.0) + 100 * case + 1
                assert torch.equal(tensor(run, 3 * case + 2), expected)
        assert torch.equal(tensor(apart.run(scenario(), values, fresh=False), 2)[:1], torch.ones(1))


def test_what_goes_wrong_in_one_of_several_calls_is_said_of_that_one(cpu: Nursery) -> None:
    source = "def run(x):\n    if x[0] == 500: raise ValueError('five')\n    return x"
    with opened(source, cpu) as apart:
        records = apart.run(at_once(8), values, fresh=False).result.records
        assert [n for n, one in enumerate(records) if isinstance(one, StepRaised)] == [16, 17]
    ending = "import os\ndef run(x):\n    if x[0] == 500: os._exit(3)\n    return x + 1"
    with opened(ending, cpu) as apart:
        run = apart.run(at_once(8), values, fresh=False)
        assert run.result.termination == Exited(index=16, exit_code=3)
        assert torch.equal(tensor(run, 14), torch.arange(10.0) + 401)


def test_one_wait_serves_many_calls(cpu: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    posted = list[str]()
    post = WorkerHandle.post

    def counted(self: WorkerHandle, message: dict[str, Any], *given: Any) -> str:
        posted.append(message["do"])
        return post(self, message, *given)

    monkeypatch.setattr(WorkerHandle, "post", counted)
    with opened("def run(x): return x + 1", cpu) as apart:
        apart.run(at_once(30), values, fresh=False)
    assert posted == ["hello", "hello", "load", "begin", "each"]


def test_many_calls_in_one_process_share_nothing_but_the_candidate(cpu: Nursery) -> None:
    with opened("N = [0]\ndef run(x):\n    N[0] += 1\n    return x + N[0]", cpu) as apart:
        counted = [float(tensor(apart.run(scenario(), values, fresh=False), 2)[0]) for _ in "123"]
        assert counted == [1.0, 2.0, 3.0]
        assert float(tensor(apart.run(scenario(), values, fresh=True), 2)[0]) == 1.0


def test_inputs_are_read_where_they_lie_and_refilled_there(cpu: Nursery) -> None:
    steps = (
        Allocate(slot="a", case=0),
        Call(slot="a", result="r"),
        ReadInputs(slot="a"),
        Refill(slot="a", case=1),
        Call(slot="a", result="s"),
        ReadResult(result="r"),
        ReadResult(result="s"),
        HashResult(result="s"),
        Release(name="a"),
        Call(slot="a", result="t"),
    )
    with opened("def run(x):\n    y = x * 2\n    x[0] = -1\n    return y", cpu) as apart:
        run = apart.run(scenario(*steps, cases=2), values, fresh=True)
    changed = tensor(run, 2).view(torch.float32)
    assert changed.tolist() == [-1.0, *range(1, 10)]
    assert tensor(run, 5).tolist() == [2.0 * n for n in range(10)]
    assert tensor(run, 6).tolist() == [200.0 + 2 * n for n in range(10)]
    hashed = run.result.records[7]
    assert isinstance(hashed, StepDone)
    assert hashed.digest == digest([tensor(run, 6)])
    assert isinstance(run.result.records[9], StepRaised)  # nothing is left in the slot


@pytest.mark.parametrize(
    ("change", "shape", "aliases", "requires_grad"),
    [
        ("x.unsqueeze_(0)", (1, 10), ("x",), False),
        ("x.requires_grad_(True)", (10,), ("x",), True),
        ("x.data = x.clone()", (10,), (), False),
        ("x.resize_(3)", (3,), ("x",), False),
    ],
)
def test_inputs_are_described_as_a_call_left_them(
    cpu: Nursery, change: str, shape: tuple[int, ...], aliases: tuple[str, ...], requires_grad: bool
) -> None:
    steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"), ReadInputs(slot="a"))
    with opened(f"def run(x):\n    y = x * 2\n    {change}\n    return y", cpu) as apart:
        run = apart.run(scenario(*steps), values, fresh=True)
    record = run.result.records[2]
    assert isinstance(record, StepDone)
    data, now = record.items
    assert (data.dtype, data.shape) == ("uint8", (40,))
    assert (now.name, now.shape, now.aliases) == ("x", shape, aliases)
    assert now.requires_grad is requires_grad


def test_scalars_are_replaced_and_outputs_are_named(cpu: Nursery) -> None:
    asked = problem(
        inputs=(
            tensor_spec("x", "float32", "n"),
            ScalarSpec(name="f", dtype=DType("float32"), domain=Real()),
        ),
        outputs=(tensor_spec("y", "float32", "n"), tensor_spec("z", "float32", "n")),
    )

    def given_(case: Case) -> Mapping[str, torch.Tensor | Scalar]:
        return {**values(case), "f": float(int(case.label) + 2)}

    steps = (*_CALL, Refill(slot="a", case=1), Call(slot="a", result="s"), ReadResult(result="s"))
    source = "def run(x, f): return {'z': x * f, 'y': x}"
    with opened(source, cpu, asked) as apart:
        run = apart.run(scenario(*steps, cases=2), given_, fresh=True)
    record = run.result.records[2]
    assert isinstance(record, StepDone)
    assert [item.name for item in record.items] == ["y", "z"]
    assert record.items[0].aliases == ("x",)
    assert record.items[1].aliases == ()
    assert tensor(run, 2, 1)[1] == 2.0
    assert tensor(run, 5, 1)[1] == 101.0 * 3


@pytest.mark.parametrize(("poison", "byte"), [(Poison.ZEROS, 0x00), (Poison.ONES, 0xFF)])
def test_fresh_memory_is_filled(cpu: Nursery, poison: Poison, byte: int) -> None:
    steps = (_CALL[0], Call(slot="a", result="r", poison=poison), _CALL[2])
    asked = problem(outputs=(tensor_spec("y", "uint8", "n"),))
    with opened("def run(x): return torch.empty(10, dtype=torch.uint8)", cpu, asked) as apart:
        run = apart.run(scenario(*steps), values, fresh=True)
    assert tensor(run, 2).tolist() == [byte] * 10
    with opened("def run(x, y): pass", cpu, asked, Convention.DESTINATION) as apart:
        run = apart.run(scenario(*steps), values, fresh=True)
    assert tensor(run, 2).tolist() == [byte] * 10


def test_a_kernel_that_cannot_be_loaded_is_told_by_name(cpu: Nursery) -> None:
    with (
        opened("import nowhere_to_be_found\ndef run(x): return x", cpu) as apart,
        pytest.raises(NotLoadedError, match="ModuleNotFoundError"),
    ):
        apart.run(scenario(), values, fresh=True)


def test_an_exit_and_an_exception_are_seen(cpu: Nursery) -> None:
    with opened("def run(x):\n    os._exit(3)", cpu) as apart:
        end = apart.run(scenario(), values, fresh=True).result.termination
        assert end == Exited(index=1, exit_code=3)
        again = apart.run(scenario(), values, fresh=False).result.termination
        assert again == Exited(index=1, exit_code=3)  # in a new process
    with opened("def run(x):\n    raise ValueError('no')", cpu) as apart:
        record = apart.run(scenario(), values, fresh=True).result.records[1]
        assert isinstance(record, StepRaised)
        assert (record.exception, record.message) == ("ValueError", "no")


def test_what_is_covered() -> None:
    assert can_take(scenario())
    assert not can_take(scenario(mode=Mode.GUARDED))
    assert not can_take(scenario(*_CALL, PoisonFreed()))
    assert not can_take(scenario(_CALL[0], Call(slot="a", result="r", poison=Poison.RIGHT)))
    assert not can_take(scenario(_CALL[0], Call(slot="a", result="r", thread=True)))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
_FIELDS = ("type_name", "name", "dtype", "shape", "strides", "device", "storage", "at", "scalar")


@given(
    st.sampled_from(["tensor", "scalar", "none", "other", ""]),
    st.fixed_dictionaries({}, optional=dict.fromkeys(_FIELDS, _JSON)),
    st.sampled_from(["float32", "bool", "int4", ""]),
    st.lists(st.integers(), max_size=3),
)
def test_any_description_is_read_or_refused(
    kind: str, fields: dict[str, Any], dtype: str, sizes: list[int]
) -> None:
    held = SharedArguments({"x": torch.zeros(3)}, [])
    try:
        for more in ({}, {"dtype": dtype, "shape": sizes, "strides": sizes, "device": "cpu"}):
            found = {"kind": kind, **fields, **more, "number": 0}
            try:
                described = read_described(found, held)
            except GoneError:
                continue
            assert described.item.kind in ("tensor", "scalar", "none", "other")
            if described.readable:
                assert described.item.dtype in DTYPES
                assert 0 < described.at < 1 << 63
    finally:
        held.close()


def test_an_input_that_is_written_and_put_back_ends_the_process_where_it_is_read_only(
    cpu: Nursery,
) -> None:
    puts_back = """
import torch

def run(x):
    kept = x.clone()
    y = x.mul_(2.0).clone()
    x.copy_(kept)
    return y
"""
    only = (Allocate(slot="a", case=0, read_only=True), *_CALL[1:])
    case = Case(label="0", axes={"n": 4})

    def end(source: str, steps: tuple[Step, ...]) -> object:
        asked = Scenario(label="", cases=(case,), steps=steps)
        with opened(source, cpu) as apart:
            return apart.run(asked, lambda _: {"x": torch.ones(4)}, fresh=True).result.termination

    honest = "def run(x):\n    return x * 2.0\n"
    assert isinstance(end(honest, only), Finished)
    assert isinstance(end(puts_back, _CALL), Finished)
    assert isinstance(end(puts_back, only), Killed)


def test_what_calls_keep_is_seen_from_outside(cpu: Nursery) -> None:
    keeps = """
import threading

def run(x):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    return x * 2.0
"""
    steps = (Allocate(slot="a", case=0), CallOften(slot="a", budget_s=0.05))
    asked = Scenario(label="", cases=(Case(label="0", axes={"n": 4}),), steps=steps)
    with opened(keeps, cpu) as apart:
        last = apart.run(asked, lambda _: {"x": torch.ones(4)}, fresh=True).result.records[-1]
    assert isinstance(last, StepDone)
    assert isinstance(last.report, Holdings)
    looks = last.report.found
    assert all(b.threads - a.threads == b.calls - a.calls for a, b in pairwise(looks))
    assert len(looks) >= 3


@pytest.mark.parametrize(
    ("each_call", "kept"),
    [
        ("", 0),
        ("KEPT.append(object())", 1),
        ("circle = []; circle.append(circle); KEPT.append(circle)", 2),  # a list and its room
        ("circle = []; circle.append(circle)", 0),  # garbage of the young
        ("circle = []; circle.append(circle); KEPT[:] = [circle]; gc.collect(1)", 0),  # the old
    ],
)
def test_objects_are_counted_without_garbage_of_any_age(
    cpu: Nursery, each_call: str, kept: int
) -> None:
    source = f"import gc\nKEPT = []\ndef run(x):\n    {each_call or 'pass'}\n    return x * 2.0\n"
    steps = (Allocate(slot="a", case=0), CallOften(slot="a", budget_s=0.2, most=64))
    asked = Scenario(label="", cases=(Case(label="0", axes={"n": 4}),), steps=steps)
    with opened(source, cpu) as apart:
        last = apart.run(asked, lambda _: {"x": torch.ones(4)}, fresh=True).result.records[-1]
    assert isinstance(last, StepDone)
    assert isinstance(last.report, Holdings)
    for a, b in pairwise(last.report.found[-3:]):
        assert b.calls - a.calls >= 16
        assert (b.objects - a.objects) / (b.calls - a.calls) == pytest.approx(kept, abs=0.5)


_BRANCHES = "def run(x):\n    if len(x) > 10:\n        return x * 0\n    return x + 1"


@pytest.mark.parametrize(("mode", "calls"), [(Mode.PLAIN, 1), (Mode.APART, 0)])
def test_lines_of_judged_calls_are_told_but_of_a_bare_process(
    cpu: Nursery, mode: Mode, calls: int
) -> None:
    with opened(_BRANCHES, cpu) as apart:
        run = apart.run(scenario(mode=mode), values, fresh=True)
    assert run.reached.calls == calls
    assert not run.reached.lost
    lines = {line for line, _ in run.reached.places.get("kernel.py", ())}
    assert lines == ({3, 5} if calls else set())  # the first line of the file imports


def test_each_scenario_tells_its_own_lines(cpu: Nursery) -> None:
    with opened(_BRANCHES, cpu) as apart:
        first = apart.run(scenario(), values, fresh=True).reached
        again = apart.run(scenario(), values, fresh=False).reached
    assert again.places == first.places
    assert first.branches["kernel.py"]


def test_calls_before_the_one_that_is_judged_are_not_followed(cpu: Nursery) -> None:
    steps = (
        Allocate(slot="a", case=0),
        CallOften(slot="a", most=64, result="r"),
        ReadResult(result="r"),
    )
    with opened("def run(x):\n    return x + 1", cpu) as apart:
        assert apart.run(scenario(*steps), values, fresh=True).reached.calls == 1


def test_calls_whose_results_nobody_reads_are_not_followed(cpu: Nursery) -> None:
    steps = (
        Allocate(slot="a", case=0),
        Call(slot="a", result="unread"),
        Call(slot="a", result="read"),
        ReadResult(result="read"),
    )
    with opened("def run(x):\n    return x + 1", cpu) as apart:
        assert apart.run(scenario(*steps), values, fresh=True).reached.calls == 1


def test_calls_whose_lines_nobody_asks_for_are_not_followed(cpu: Nursery) -> None:
    steps: list[Step] = [Allocate(slot="a", case=0)]
    calls = [Call(slot="a", result="r", noted=noted) for noted in (False, True, False)]
    steps += [step for call in calls for step in (call, ReadResult(result="r"))]
    with opened("def run(x):\n    return x + 1", cpu) as apart:
        run = apart.run(scenario(*steps), values, fresh=True)
    assert run.reached.calls == 1
    assert all(isinstance(one, StepDone) for one in run.result.records)


def test_a_part_of_the_code_comes_to_another_value_in_one_call(cpu: Nursery) -> None:
    source = "def run(x):\n    y = x * 2.0\n    return y + 1.0 if len(x) < 99 else y - 1.0"
    with opened(source, cpu) as apart:
        plain = apart.run(scenario(), values, fresh=True)
        (file,) = plain.reached.parts
        first, other = sorted(span for span in plain.reached.parts[file] if span[3] - span[1] > 2)
        exchanged = [
            Call(slot="a", result="r", exchange=Exchange(file=file, span=span, instead=instead))
            for span, instead in ((first, Instead.ZERO), (other, Instead.FIRST))
        ]
        nowhere = Exchange(
            file=file, span=(other[0], other[1] + 30, *other[2:]), instead=Instead.ZERO
        )
        steps = (
            Allocate(slot="a", case=0),
            exchanged[0],
            ReadResult(result="r"),
            exchanged[1],
            ReadResult(result="r"),
            Call(slot="a", result="r", exchange=nowhere),
            Call(slot="a", result="r"),
            ReadResult(result="r"),
        )
        run = apart.run(scenario(*steps), values, fresh=False)
    assert torch.equal(tensor(run, 2), torch.ones(10))
    assert torch.equal(tensor(run, 4), torch.arange(10.0) * 2)
    assert isinstance(run.result.records[5], StepRaised)  # no such part
    assert torch.equal(tensor(run, 7), torch.arange(10.0) * 2 + 1)


@pytest.mark.parametrize("last", ["pass", "gc.collect(1)", "gc.collect()"])
def test_a_tensor_that_calls_keep_is_spoiled_in_one_call(cpu: Nursery, last: str) -> None:
    source = f"""
TABLE, KEPT = [], {{}}
def run(x):
    if not TABLE:
        TABLE.append(torch.arange(10.0))
    if not torch.equal(KEPT.get("x", TABLE[0] - 1.0), x):
        KEPT["x"], KEPT["y"] = x.clone(), x * 2.0 + TABLE[0]
    {last}  # ages what calls keep
    return KEPT["y"].clone()
"""
    call = Call(slot="a", result="r")
    found = []
    with opened(f"import gc, torch\n{source}", cpu) as apart:
        for number in range(3):
            steps = (
                Allocate(slot="a", case=0),
                dataclasses.replace(call, exchange=Spoiled()),
                Refill(slot="a", case=1),
                call,
                dataclasses.replace(call, exchange=Spoiled(number=number)),
                ReadResult(result="r"),
                call,
                ReadResult(result="r"),
            )
            run = apart.run(scenario(*steps, cases=2), values, fresh=True)
            right = (torch.arange(10.0) + 100) * 2 + torch.arange(10.0)
            assert torch.equal(tensor(run, 7), right)
            record = run.result.records[4]
            assert isinstance(record, StepDone)
            if record.items:
                found.append((not torch.equal(tensor(run, 5), right), dict(run.reached.kept)))
    # The copy of x and the result; not the table. A copy that is not x lets it compute again.
    assert sorted(wrong for wrong, _ in found) == [False, True]
    assert [spans for wrong, kept in found if wrong for spans in kept.values()]


@pytest.mark.parametrize(
    "act",
    [
        "sys.settrace(None)",
        "sys.settrace(lambda *_: None)",
    ],
)
@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="followed by sys.monitoring")
def test_who_ends_the_trace_is_told_of(cpu: Nursery, act: str) -> None:
    with opened(f"def run(x):\n    {act}\n    return x + 1", cpu) as apart:
        assert apart.run(scenario(), values, fresh=True).reached.lost


_OPENS = """
import ctypes, os

def main(descriptor):
    pass

def confine(request):
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
    return {"opened": [os.open(os.devnull, os.O_RDONLY) for _ in range(256)]}
"""


def test_files_that_are_opened_as_a_process_is_confined_stay_open(tmp_path: Path) -> None:
    """The driver of a GPU opens dozens; none is taken for a socket that the program had."""
    trees.write(tmp_path / "opens.py", _OPENS)
    first, one = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    number = fcntl.fcntl(other.fileno(), fcntl.F_DUPFD_CLOEXEC, 20)
    with first, one, control, other, channel, theirs, open(apart.__file__, "rb") as program:
        process = subprocess.Popen(
            [sys.executable, "-P", "-", str(one.fileno()), str(number)],
            pass_fds=(one.fileno(), number),
            env={"PYTHONPATH": str(tmp_path)},
            stdin=program,
        )
        os.close(number)
        notes = str(Path(apart.__file__).with_name("notes.py"))
        wish = {"imports": ["torch"], "zygote": "opens", "notes": notes}
        control.send(json.dumps(wish).encode())
        spawn = {"do": "spawn", "id": 1, "confine": "opens", "forget": []}
        fds = (theirs.fileno(), 2)
        socket.send_fds(control, [json.dumps(spawn).encode()], fds)
        pid = json.loads(control.recv(1 << 16))["pid"]
        asked = json.dumps({"do": "hello", "nonce": "n"}).encode()
        channel.sendall(struct.pack("<I", len(asked)) + asked)
        (size,) = struct.unpack("<I", channel.recv(4, socket.MSG_WAITALL))
        opened = json.loads(channel.recv(size, socket.MSG_WAITALL))["walls"]["opened"]
        assert number in opened
        assert set(opened) <= set(map(int, os.listdir(f"/proc/{pid}/fd")))
        control.shutdown(socket.SHUT_RDWR)
        assert process.wait(60) == 0


_STUCK = """
import os, time
def main(descriptor):
    helper = os.fork()
    if helper:
        print(os.getpid(), helper, flush=True)
    time.sleep(600)
"""


def test_a_zygote_that_compiles_ends_with_who_asked(tmp_path: Path) -> None:
    """Nobody waits for what it makes: it hears nothing while it compiles, nor do its helpers."""
    (tmp_path / "stuck.py").write_text(_STUCK)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    plain, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    numbers = [theirs.fileno(), other.fileno()]
    with ours, theirs, plain, other, open(apart.__file__, "rb") as program:
        started = subprocess.Popen(
            [sys.executable, "-P", "-", *map(str, numbers)],
            pass_fds=numbers,
            stdin=program,
            stdout=subprocess.PIPE,
            env=dict(os.environ, PYTHONPATH=str(tmp_path)),
            start_new_session=True,
        )
        notes = str(Path(apart.__file__).with_name("notes.py"))
        plain.send(json.dumps({"imports": [], "zygote": "stuck", "notes": notes}).encode())
        assert started.stdout is not None
        with started.stdout:
            running = [int(pid) for pid in started.stdout.readline().split()]
            assert len(running) == 2
    end = time.monotonic() + 60.0
    assert started.wait(60.0) == 0
    while any(map(processes.live, running)):
        assert time.monotonic() < end, "it outlived who asked"
        time.sleep(0.05)
