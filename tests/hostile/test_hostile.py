"""Candidates that attack the verifier: none is accepted, and none harms the trial after it."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from cuassay.catalog import registry
from cuassay.formats import load_candidate
from cuassay.judge.decide import examine
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.problem import Problem
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.steps import Mode
from cuassay.model.trace import StepDone
from cuassay.sandbox.host.apart import Apart
from cuassay.sandbox.host.client import WorkerPool
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.limits import Limits
from tests.hostile.problem import scaled
from tests.hostile.table import HEAD, SUSPECTS, TABLE, Hostile, every_attempt
from tests.support.left import nothing_left
from tests.zoo.judging import Gate, Judgement
from tests.zoo.verdicts import few_calls

_SEED = 20261123
_ATTACKS = Path(__file__).parent / "attacks"
_PROBLEM: Problem = vars(scaled)["__cuassay_problem__"]


@dataclass(frozen=True, slots=True)
class Target:
    """A gate, and what attacks reach for: a folder of the judge's with secrets, a port."""

    gate: Gate
    home: Path
    port: int
    folder: Path

    def write(self, name: str, body: str) -> Path:
        """Write a candidate that knows where what it wants lies."""
        path = self.folder / f"{name}.py"
        places = f"HOME, JUDGE, PORT = {str(self.home)!r}, {os.getpid()}, {self.port}\n"
        path.write_text(places + HEAD + body, encoding="utf-8")
        return path

    def judge(self, name: str, body: str, codes: tuple[str, ...]) -> Judgement:
        """Judge a candidate."""
        return self.gate.judge(_PROBLEM, self.write(name, body), seed=_SEED, only=codes)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Open a gate beside secrets, a listening port and sockets of this host."""
    with ExitStack() as stack:
        home = tmp_path_factory.mktemp("home")
        for name in ("keys", "runs", "cache/other"):
            (home / name).mkdir(parents=True)
        (home / "keys" / "attest.pem").write_text("a key")
        (home / "out.txt").write_text("seed 1")
        ports = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for path, kind in (
            ("host.sock", socket.SOCK_STREAM),
            ("host-datagram.sock", socket.SOCK_DGRAM),
        ):
            held = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            held.bind(str(home / path))
            if kind is socket.SOCK_STREAM:
                held.listen()
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(examine, "ENOUGH", 1)  # one wrong answer refuses a kernel
        gate = stack.enter_context(Gate("cpu", without=("machine",)))
        made = Target(gate, home, ports.getsockname()[1], tmp_path_factory.mktemp("candidates"))
        made.judge("first", "def run(x):\n    return right(x)\n", ("NUM001",))  # all is started
        yield made


@pytest.fixture(scope="module")
def climbed(target: Target) -> set[str]:
    """Return the names of the attempts that succeed in a worker or in a process apart."""
    candidate = load_candidate(str(target.write("every-attempt", every_attempt())), _PROBLEM)
    names = [one.name for one in TABLE if one.attempt]
    case = Case(label="one", axes={"rows": 4})
    steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"), ReadResult(result="r"))
    found: set[str] = set()
    with (
        Nursery(CPU, hide=[target.home]) as nursery,
        WorkerPool(candidate, _PROBLEM, device=CPU, nursery=nursery, keep=target.folder) as pool,
        Apart(candidate, _PROBLEM, device=CPU, nursery=lambda: nursery, limits=Limits()) as apart,
    ):
        for mode in (Mode.PLAIN, Mode.APART):
            scenario = Scenario(label="attempts", cases=(case,), steps=steps, mode=mode)
            made = pool if mode is Mode.PLAIN else apart
            run = made.run(scenario, lambda case: {"x": torch.ones(4)}, fresh=True)
            read = run.result.records[-1]
            assert isinstance(read, StepDone), run.result
            outcomes = run.tensor(read.items[0]).tolist()
            found |= {name for name, one in zip(names, outcomes, strict=True) if one}
    return found


def _rows(*, slow: bool) -> list[object]:
    whole = [one for one in TABLE if not one.attempt or one.name == "key"]
    return [pytest.param(one, id=one.name) for one in whole if one.slow == slow]


def _is_refused(target: Target, walls: Mapping[str, str], one: Hostile) -> None:
    for wall in one.needs:
        if walls[wall] != "yes":
            pytest.skip(f"{wall}: {walls[wall]}")
    with nothing_left(target.gate.processes_folder):
        found = target.judge(one.name, one.body, one.codes)
    if one.condition and found.accepted:
        assert one.condition in {c.partition(":")[0] for c in found.verdict.conditions}, str(found)
    else:
        assert not found.accepted, str(found)
    errors = [c.code for c in found.verdict.checks if "fault of cuassay" in found.verdict.reason]
    assert not errors, str(found)


@pytest.mark.parametrize("one", [pytest.param(o, id=o.name) for o in TABLE if o.attempt])
def test_an_attempt_fails(climbed: set[str], walls: Mapping[str, str], one: Hostile) -> None:
    for wall in one.needs:
        if walls[wall] != "yes":
            pytest.skip(f"{wall}: {walls[wall]}")
    assert one.name not in climbed


def test_an_attempt_that_nothing_refuses_succeeds(target: Target) -> None:
    body = "def run(x):\n    return right(x) if os.listdir('.') is not None else wrong(x)\n"
    assert target.judge("nothing-refuses", body, ("NUM001",)).accepted


@pytest.mark.parametrize("one", _rows(slow=False))
def test_an_attack_is_not_accepted(target: Target, walls: Mapping[str, str], one: Hostile) -> None:
    _is_refused(target, walls, one)


def _problem_of(path: Path) -> str:
    named = re.search(r"^# problem: (\w+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert named is not None, path
    return named[1]


# Those of a problem one after another: they share its truths.
_BY_PROBLEM = sorted(_ATTACKS.glob("*.py"), key=lambda path: (_problem_of(path), path.name))


@pytest.mark.slow
@pytest.mark.parametrize("path", _BY_PROBLEM, ids=lambda path: path.stem)
def test_an_attack_of_the_benchmark_leaves_nothing(target: Target, path: Path) -> None:
    """What becomes of them at whole profiles is measured: benchmarks/attacks.py."""
    problem = registry.get(_problem_of(path))
    with nothing_left(target.gate.processes_folder):
        target.gate.judge(problem, path, seed=_SEED, only=("NUM001",), budget_s=30.0)


@pytest.mark.slow
@pytest.mark.parametrize("one", _rows(slow=True))
def test_a_slow_attack_is_not_accepted(
    target: Target, walls: Mapping[str, str], one: Hostile
) -> None:
    _is_refused(target, walls, one)


@pytest.mark.parametrize("one", [pytest.param(o, id=o.name) for o in TABLE if o.twin])
def test_a_twin_is_accepted(target: Target, one: Hostile) -> None:
    unreached = one.condition == "unreached"
    with nullcontext() if unreached else few_calls():
        found = target.judge(f"twin-{one.name}", one.twin, one.codes)
    assert found.accepted, str(found)
    if unreached:
        assert found.verdict.scope.unreached == ()


@pytest.mark.parametrize("name", list(SUSPECTS))
def test_a_correct_kernel_with_the_looks_of_an_attack_is_accepted(
    target: Target, name: str
) -> None:
    codes = ("API001", "PROC001", "APART001")
    with few_calls():
        found = target.judge(name, SUSPECTS[name], codes)
    assert found.accepted, str(found)


def test_an_honest_candidate_is_accepted_after_all_of_them(target: Target) -> None:
    found = target.judge("honest", "def run(x):\n    return right(x)\n", ("NUM001", "SHP001"))
    assert found.accepted, str(found)
