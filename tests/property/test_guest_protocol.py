"""The guest's side of the protocol says anything, in any order: a run ends all the same.

A thread stands in for the process. It answers each request with what Hypothesis draws: bytes,
frames with or without the nonce of the request, records that are almost right, the end of the
channel, or two answers at once. The judge's side returns how the run ended, and judging it
raises nothing. Both guests are stood in for: the worker, and the program that holds nothing of
cuassay (`sandbox.guest.process.apart`).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.workers import candidate, problem, ramp, scenario

from cuassay.checks.endings.findings import inconclusive_reason, termination_finding
from cuassay.judge.decide.structure import matched
from cuassay.model.device import CPU
from cuassay.model.scenario import Allocate, Call, HashResult, ReadInputs, ReadResult
from cuassay.model.steps import Mode
from cuassay.model.trace import (
    Exited,
    Finished,
    Garbled,
    Killed,
    ScenarioResult,
    StepDone,
    TimedOut,
)
from cuassay.sandbox import wire
from cuassay.sandbox.host.apart_execution import ApartExecution
from cuassay.sandbox.host.execution import Execution
from cuassay.sandbox.host.handle import UnbornError, WorkerHandle
from cuassay.sandbox.host.nursery import ForkServer
from cuassay.sandbox.host.segments import Segments
from cuassay.sandbox.host.waits import run_now
from cuassay.sandbox.limits import Limits
from cuassay.sandbox.ran import Ran

_HEAD = struct.Struct("<I")
# The stand-in is this process, whatever memory and processes the tests have.
_LIMITS = Limits(memory_bytes=1 << 60, processes=1 << 20)
_STEPS = (
    Allocate(slot="s", case=0),
    Call(slot="s", result="r"),
    ReadResult(result="r"),
    ReadInputs(slot="s"),
    HashResult(result="r"),
)

_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
_json = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
_items = st.fixed_dictionaries(
    {
        "type": st.just("ResultItem"),
        "kind": st.sampled_from(["tensor", "scalar", "none", "other", "?"]),
        "type_name": st.text(max_size=5),
        "dtype": st.sampled_from(["float32", "int64", "bool", "", "float7"]),
        "shape": st.lists(st.integers(-1, 1 << 50) | st.just(100), max_size=3),
        "buffer": st.integers(-2, 3),
        "scalar": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "name": st.sampled_from(["", "y", "x"]),
    }
)
_records = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["StepDone", "StepRaised", "Other"]),
        "index": st.integers(-1, 6),
        "items": st.lists(_items, max_size=3),
    }
) | st.fixed_dictionaries(
    {
        "type": st.just("StepRaised"),
        "index": st.integers(0, 5),
        "exception": st.text(max_size=10),
        "message": st.text(max_size=10),
        "claim": st.sampled_from([None, "no memory", "launch", "else"]),
    }
)
# What is said to a request: (how, what).
_bodies = st.one_of(
    st.tuples(st.just("record"), _records),
    st.tuples(st.just("right record"), st.lists(_items, max_size=2)),
    st.tuples(st.just("frame"), st.dictionaries(st.text(max_size=8), _json, max_size=4)),
    st.tuples(st.just("other nonce"), _json),
    st.tuples(st.just("bytes"), st.binary(min_size=1, max_size=40)),
    st.tuples(st.just("twice"), _json),
    st.tuples(st.just("written"), st.booleans()),
    st.tuples(st.just("close"), st.none()),
)


class _Server(ForkServer):
    """Starts a thread where a real one forks a process."""

    def __init__(self, folder: Path, said: list[tuple[str, Any]], pid: int | None = None) -> None:
        ours, self._theirs = socket.socketpair()
        super().__init__(ours, folder, initial="w")
        if pid is not None:
            self.pids[1] = pid
        self._said = said
        self._ended = False

    def spawn(
        self,
        *,
        channel: int,
        output: int,
        cache: Path,
        limits: Limits,
        mode: Mode = Mode.PLAIN,
        queues: int | None = None,
    ) -> tuple[int, Path]:
        other = socket.socket(fileno=os.dup(channel))
        self._thread = threading.Thread(target=self._talk, args=(other,), daemon=True)
        self._thread.start()
        return 1, self.folder

    def _talk(self, channel: socket.socket) -> None:
        with contextlib.suppress(OSError, wire.ClosedError, wire.GarbledError), channel:
            script: Iterator[tuple[str, Any]] = iter([("frame", {"walls": {}}), *self._said])
            index = -2
            while True:
                request, fds = wire.receive(channel)
                for fd in fds:
                    os.close(fd)
                index = int(request.get("index", index))
                how, what = next(script, ("close", None))
                if how == "close":
                    return
                channel.sendall(_said(how, what, str(request["nonce"]), index))
        self._ended = True

    def kill(self, worker: int) -> None:
        pass

    def has_ended(self, worker: int) -> bool:
        return False

    async def wait_status(self, worker: int, limit_s: float) -> int:
        return 9

    async def end(self, worker: int) -> int:
        return 9

    def close(self) -> None:
        self.control.close()
        self._theirs.close()


def _said(how: str, what: Any, nonce: str, index: int) -> bytes:
    """Return the bytes of one answer."""

    def frame(message: Mapping[str, Any]) -> bytes:
        body = json.dumps(message).encode()
        return _HEAD.pack(len(body)) + body

    match how:
        case "bytes":
            return bytes(what)
        case "record":
            return frame({"nonce": nonce, "record": what})
        case "right record":
            record = {"type": "StepDone", "index": index, "items": what}
            return frame({"nonce": nonce, "record": record})
        case "written":
            return frame({"nonce": nonce, "written": what})
        case "other nonce":
            return frame({"nonce": "0" * 32, "record": what})
        case "twice":
            return frame({"nonce": nonce, "record": what}) * 2
        case _:
            return frame({**what, "nonce": nonce})


# A buffer of this process, which may be named as the place of a result.
_HERE = torch.arange(100.0)
_described = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["tensor", "tensor", "scalar", "none", "other", "?"]),
        "type_name": st.text(max_size=5),
        "name": st.sampled_from(["", "", "y", "x"]),
    },
    optional={
        "dtype": st.sampled_from(["float32", "int64", "bool", "", "float7"]) | _scalars,
        "shape": st.lists(st.integers(-1, 1 << 50) | st.just(100), max_size=3) | _scalars,
        "strides": st.lists(st.integers(-1, 1 << 50) | st.just(1), max_size=3) | _scalars,
        "device": st.just("cpu") | _scalars,
        "storage": st.just(_HERE.data_ptr()) | _scalars,
        "at": st.just(_HERE.data_ptr()) | st.integers(-1, 1 << 64) | _scalars,
        "scalar": st.floats() | _scalars,
    },
)
_right = st.fixed_dictionaries(
    {
        "kind": st.just("tensor"),
        "dtype": st.just("float32"),
        "shape": st.just([100]),
        "strides": st.sampled_from([[1], [0]]),
        "device": st.just("cpu"),
        "at": st.sampled_from([_HERE.data_ptr(), 0, 4096]),
    }
)
_answers = st.fixed_dictionaries(
    {},
    optional={
        "done": _scalars,
        "at": st.lists(st.integers() | _scalars, max_size=2) | _json,
        "items": st.lists(_described | _right, max_size=3) | _json,
        "inputs": st.lists(_described | _right | _json, min_size=1, max_size=2) | _json,
        "raised": _json
        | st.fixed_dictionaries({"exception": _json, "message": _json})
        | st.just({"exception": "MemoryError", "message": ""}),
        "written": st.booleans() | _json,
        "state": _json,
        "record": _records,
    },
)
_apart_bodies = (
    st.tuples(st.just("frame"), _answers)
    | st.tuples(st.just("frame"), st.builds(lambda one: {"items": [one]}, _right))
    | st.tuples(st.just("frame"), st.builds(lambda one: {"inputs": [one]}, _described | _json))
    | st.tuples(st.just("frame"), st.sampled_from([{"done": True}, {"at": [4096]}]))
    | _bodies
)
# What one is told where nothing is wrong, up to each of the steps.
_PLAIN: tuple[tuple[str, Any], ...] = (("frame", {"done": True}), ("frame", {"at": [4096]}))


@pytest.mark.parametrize("begun", [True, False])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(_bodies, max_size=8))
def test_a_run_ends_whatever_the_guest_says(
    begun: bool, said: list[tuple[str, Any]], tmp_path: Path
) -> None:
    script = [("frame", {"ok": True}), *said] if begun else said
    _run(script, tmp_path, apart=False)


@pytest.mark.parametrize("begun", [0, 1, 2])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(_apart_bodies, max_size=8))
def test_a_run_apart_ends_whatever_the_guest_says(
    begun: int, said: list[tuple[str, Any]], tmp_path: Path
) -> None:
    _run([*_PLAIN[:begun], *said], tmp_path, apart=True)


@pytest.mark.parametrize("inputs", [[], [5], [None, None], ["x"], {"x": 1}])
def test_inputs_that_are_no_descriptions_are_garbled(inputs: Any, tmp_path: Path) -> None:
    item = {"kind": "tensor", "dtype": "float32", "shape": [100], "strides": [1]}
    told = {"items": [{**item, "device": "cpu", "at": _HERE.data_ptr()}]}
    _, end = _run([*_PLAIN, ("frame", told), ("frame", {"inputs": inputs})], tmp_path, apart=True)
    assert isinstance(end, Garbled)


@pytest.mark.parametrize("strides", [[1], [0]])
def test_a_guest_that_says_what_is_right_comes_to_an_end(
    strides: list[int], tmp_path: Path
) -> None:
    """The scripts above can reach every step."""
    item = {"kind": "tensor", "dtype": "float32", "shape": [100], "strides": strides}
    told = {"items": [{**item, "device": "cpu", "at": _HERE.data_ptr()}]}
    now = {**item, "requires_grad": False, "storage": 0}
    script = [*_PLAIN, ("frame", told), ("frame", {"inputs": [now]})]
    script += [("frame", {"done": True})] * 2
    records, end = _run(script, tmp_path, apart=True)
    assert end == Finished()
    assert [type(record) for record in records] == [StepDone] * len(_STEPS)


def _run(script: list[tuple[str, Any]], folder: Path, *, apart: bool) -> tuple[list[Any], Any]:
    """Run a scenario against a script; return the records and how it ended."""
    server = _Server(folder, script, os.getpid() if apart else None)
    over = problem()
    trial = scenario(_STEPS, timeout_s=0.3)
    worker = WorkerHandle(server, cache=folder, limits=_LIMITS)
    segments = Segments(CPU)
    execution: Execution
    if apart:
        execution = ApartExecution(
            worker,
            segments,
            trial,
            limits=_LIMITS,
            problem=over,
            device=CPU,
            candidate=candidate("def run(x): return x"),
            baseline=None,
        )
    else:
        execution = Execution(worker, segments, trial, limits=_LIMITS, problem=over, device=CPU)
    try:
        end = run_now(execution.run(ramp, None))
    except UnbornError:
        return [], None  # nothing of a candidate was loaded yet
    finally:
        execution.close()
        segments.close()
        worker.close()
        server.close()
    assert isinstance(end, Finished | Exited | Killed | TimedOut | Garbled)
    _judge(trial, execution, end)
    return execution.records, end


def _judge(trial: Any, execution: Execution, end: Any) -> None:
    result = ScenarioResult(records=tuple(execution.records), termination=end)
    run = Ran(result, execution.tensors)
    inconclusive_reason(run)
    finding = termination_finding(trial, run)
    done = len(execution.records) == len(_STEPS)
    assert finding is not None or done or isinstance(end, Finished)
    for record in execution.records:
        if isinstance(record, StepDone) and isinstance(_STEPS[record.index], ReadResult):
            for found in matched(problem(), [(100,)], run, record.items):
                assert isinstance(found, str | torch.Tensor)
