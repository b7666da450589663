"""Parts of a kernel's code that change no result are named, what matters anywhere is not."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import importlib.util
import runpy
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cuassay.checks.registry import all_checks
from cuassay.judge.decide.exchanges import IdleParts, idle_parts
from cuassay.model.candidate import Candidate, Language, SourceFile
from cuassay.model.device import Device
from cuassay.model.effort import Effort
from cuassay.model.reached import Exchange, Instead, OperatorExchange, Reached, read_reached
from cuassay.model.scenario import Allocate, Call, ReadResult, Refill, Scenario
from cuassay.model.trace import Finished, ResultItem, ScenarioResult, StepDone, StepRaised
from cuassay.sandbox.guest.process.notes import watch
from cuassay.sandbox.ran import Ran
from tests.support.fake_trial import scaled_add

NUMERIC = next(one for one in all_checks() if one.code == "NUM001")


@pytest.fixture(autouse=True)
def _as_in_a_process_apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide what other tests left in this process, and let no clock end what a busy one slows."""
    monkeypatch.setattr(Effort, "exchange_s", 3600.0)
    gc.freeze()
    yield
    gc.unfreeze()


class Here:
    """A kernel that is called in this process, with parts of its code exchanged."""

    def __init__(self, folder: Path, source: str, trial: Any) -> None:
        path = folder / "kernel.py"
        path.write_text(source, encoding="utf-8")
        self._trial = trial
        self._begin, self._end, self._found, self._forget, self._exchange = watch(str(folder))
        spec = importlib.util.spec_from_file_location("kernel", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self._run, self._plain = module.run, runpy.run_path(str(path))["run"]
        self.calls, self.is_broken = 0, False
        self.right = tuple(self._judged(case) for case in trial.cases("numeric")[:16])
        self.reached = read_reached({"files": {}, "lost": False} | self._found())

    def forget(self) -> None:
        """Be as a process that has called nothing."""
        self._forget()
        self.reached = Reached(calls=1)

    def _judged(self, case: Any) -> tuple[Any, Scenario]:
        given = self._trial.inputs(case)
        self._begin()
        made = self._run(**given)
        self._end()
        assert torch.equal(made, self._plain(**given))
        steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"), ReadResult(result="r"))
        return NUMERIC, Scenario(label="", cases=(case,), steps=steps)

    async def exchanged(self, scenario: Scenario) -> Ran | None:
        """Run a scenario."""
        records: list[Any] = []
        tensors: list[torch.Tensor] = []
        given: dict[str, Any] = {}
        made: torch.Tensor | None = None
        reached = Reached()
        self.is_broken = self.is_broken and not scenario.fresh
        for index, step in enumerate(scenario.steps):
            match step:
                case Allocate(case=case) | Refill(case=case):
                    given = dict(self._trial.inputs(scenario.cases[case]))
                case Call(exchange=exchange):
                    self.calls += 1
                    arguments, made = list(given.values()), None
                    if exchange is not None:
                        assert not isinstance(exchange, OperatorExchange)
                        self._exchange(list(exchange.told), arguments)
                    elif self._trial.device.on_gpu:
                        self._begin()
                    try:
                        if self.is_broken:
                            raise RuntimeError("an error of the device before")
                        made = self._run(**given)
                    except Exception as error:
                        self.is_broken = self.is_broken or isinstance(error, AssertionError)
                        records.append(StepRaised(index=index, exception="", message=str(error)))
                        made = None
                        continue
                    finally:
                        self._end()
                        happened = self._exchange(None, arguments)
                        said = {"files": {}, "lost": False} | self._found()
                        reached |= read_reached(said)
                    made = None if exchange is not None and not happened else made
                case _:
                    pass
            items: tuple[ResultItem, ...] = ()
            if made is not None and not isinstance(step, Allocate | Refill):
                items = (
                    ResultItem(
                        kind="tensor",
                        type_name="torch.Tensor",
                        dtype=str(made.dtype).removeprefix("torch."),
                        shape=tuple(made.shape),
                        strides=made.stride(),
                        device="cpu",
                        buffer=len(tensors),
                    ),
                )
                tensors.append(made.clone())
            records.append(StepDone(index=index, items=items))
        result = ScenarioResult(records=tuple(records), termination=Finished(), output_text="")
        return Ran(result, tensors, reached)


def idle(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    body: str,
    head: str = "",
    *,
    device: str = "cpu",
) -> list[str]:
    """Return the parts of `run(x, bias, gain)` that decide nothing, as they are named."""
    found = parts(monkeypatch, folder, body, head, device=device)
    return [one.test for one in found.unreached]


def parts(
    monkeypatch: pytest.MonkeyPatch, folder: Path, body: str, head: str, *, device: str = "cpu"
) -> IdleParts:
    """Return the parts of `run(x, bias, gain)` that decide nothing, or that calls share."""
    source = f"import torch\n{head}\ndef run(x, bias, gain):\n    {body}\n"
    monkeypatch.setattr(SourceFileLoader, "get_code", SourceFileLoader.get_code)
    trial = dataclasses.replace(scaled_add(), device=Device(device))
    here = Here(folder, source, trial)
    if trial.device.on_gpu:  # no call was followed before
        here.forget()
    checked: Any = SimpleNamespace(right=here.right)
    candidate = Candidate(
        name="candidate",
        sources=(SourceFile(path="kernel.py", text=source),),
        entry_file="kernel.py",
        entry_function="run",
        language=Language.PYTHON,
    )
    return idle_parts(trial, candidate, here.exchanged, checked, here.reached)


NEAR = "near = 2.0 ** -float((x.shape[1] - 999) ** 2)\n    y = x * gain + bias\n    "
FAR = "far = torch.exp(-abs(x) * 9.0 - 9.0) * 1e-9\n    y = x * gain + bias\n    "
WIDE = "y = x * gain + bias\n    "


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (NEAR + "return torch.stack((y, y * (0.1 * near))).sum(dim=0)",
         ["never mattered: y * (0.1 * near)"]),
        (NEAR + "one = near + torch.ones(1)\n    return torch.einsum('rc,o->rc', y, one)",
         ["never mattered: near", "made no difference: torch.einsum('rc,o->rc', y, one)"]),
        (NEAR + "return y * (1.0 + 0.1 * near)",
         ["made no difference: y * (1.0 + 0.1 * near)", "never mattered: 0.1 * near"]),
        (WIDE + "return y * max(float(bias.abs().max()), 1e-30) / float(bias.abs().max())",
         ["made no difference: max(float(bias.abs().max()), 1e-30)"]),
        (FAR + "return y + far", ["never mattered: far"]),
        (FAR + "y += far\n    return y", ["never mattered: far"]),
        (FAR + "y[:, :1] += far[:, :1]\n    return y", ["never mattered: far[:, :1]"]),
        (FAR + "y[:1] = y[:1] + far[:1]\n    return y", ["never mattered: far[:1]"]),
        (FAR + "return torch.lerp(y, y * 2.0, far)",
         ["made no difference: torch.lerp(y, y * 2.0, far)", "never mattered: y * 2.0",
          "never mattered: far"]),
        (WIDE + "return torch.nn.functional.hardshrink(y, 1e-30)",
         ["made no difference: torch.nn.functional.hardshrink(y, 1e-30)"]),
        (WIDE + "return y.clamp(-1e30, 1e30)", ["made no difference: y.clamp(-1e+30, 1e+30)"]),
        (WIDE + "return torch.where(y.abs() > 1e30, y * 2.0, y)",
         ["made no difference: torch.where(y.abs() > 1e+30, y * 2.0, y)",
          "never mattered: y.abs() > 1e+30", "never mattered: y * 2.0"]),
    ],
)  # fmt: skip
def test_what_changes_no_result_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, expected: list[str]
) -> None:
    found = idle(monkeypatch, tmp_path, body)
    short = [one.replace("near = ", "") for one in found if "2.0 **" not in one]
    assert [one for one in short if "torch.exp" not in one and "abs(x)" not in one] == expected


def test_what_serves_a_part_without_effect_alone_is_named_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = """rows = x.shape[0]
    steps = rows * 9 + 40
    low = 2.0 ** -float(steps)
    ten = float(rows + 10)
    return x * gain + bias * ten / ten + torch.exp(-abs(x)) * low"""
    assert idle(monkeypatch, tmp_path, body)[1:] == [
        "never mattered: torch.exp(-abs(x)) * low",
        "serves nothing else: steps = rows * 9 + 40",
    ]


@pytest.mark.parametrize(
    "body",
    [
        "return torch.addcmul(bias.expand_as(x), x, torch.full_like(x, gain))",
        "y = torch.zeros(len(x), 1, dtype=x.dtype)\n    return y + x * gain + bias",
        "y = torch.full_like(x[:, :1], 2.0)\n    return x * gain + bias * y / 2.0",
        "rows, columns = x.shape\n    unused = rows + 1\n    return x * gain + bias",
        "y = torch.empty_like(x)\n    torch.mul(x, gain, out=y)\n    y.add_(bias)\n    return y",
        "return (x.float().contiguous() * gain + bias.to(x.dtype)).to(x.dtype)",
        "return x * gain + bias + 1e-30",
        "if x.shape[0] > 20:\n        return bias + gain * x\n    return x * gain + bias",
        "parts = [row * gain + bias for row in x]\n    return torch.stack(parts)",
    ],
)
def test_what_matters_somewhere_is_not_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str
) -> None:
    assert idle(monkeypatch, tmp_path, body) == []


KEPT = """mark = {key}
    if KEPT.get("key") is None or not torch.equal(KEPT["key"], mark):
        KEPT["key"], KEPT["bias"] = mark, bias * 2.0
    return x * gain + KEPT["bias"] / 2.0"""


def test_a_key_of_kept_results_matters_after_other_values(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Either sum tells other values apart, so that both are not needed."""
    kept = "kept from an earlier call: KEPT['bias']"
    whole = KEPT.format(key="bias.clone()")
    assert idle(monkeypatch, tmp_path, whole, "KEPT = {}") == [kept]
    sums = KEPT.format(key="torch.stack((bias.sum(), bias.abs().sum()))")
    found = idle(monkeypatch, tmp_path, sums, "KEPT = {}")
    assert found == ["never mattered: bias.sum()", "never mattered: bias.abs().sum()", kept]


def test_what_is_kept_for_an_address_may_be_equal_to_what_is_kept_for_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = """old = KEPT.get("here")
    if old is None or not torch.equal(old[0], x.sum()):
        old = KEPT["here"] = (x.sum(), x.clone())
        KEPT[len(KEPT)] = x.clone()
    return old[1] * gain + bias"""
    assert "kept from an earlier call: old[1]" in idle(monkeypatch, tmp_path, body, "KEPT = {}")


@pytest.mark.parametrize(
    ("head", "body", "shared"),
    [
        ("TABLE = []",
         "if not TABLE:\n        TABLE.append(torch.full((4096,), 2.0))\n"
         "    return x * gain + bias * TABLE[0][: len(bias)] / 2.0", set()),
        ("WORK = torch.empty(1 << 20)",
         "WORK[: x.numel()] = x.flatten()\n    y = WORK[: x.numel()].view_as(x) * gain\n"
         "    return y + bias", {"WORK"}),
        ("LAST = []", "LAST[:] = [x.clone()]\n    return x * gain + bias", set()),
        ("LAST = []", "LAST[:] = [x * gain + bias]\n    return LAST[0]", set()),
        ("TABLES = {}", "TABLES[x.shape] = torch.full((4096,), 2.0)\n"
         "    return x * gain + bias * TABLES[x.shape][: len(bias)] / 2.0", set()),
        ("WORK = {}", "work = WORK.setdefault(x.shape, torch.empty_like(x))\n"
         "    work.copy_(x).mul_(gain)\n    return work + bias",
         {"WORK.setdefault(x.shape, torch.empty_like(x))", "work"}),
        ("", "work = torch.empty_like(x)\n    work.copy_(x).mul_(gain)\n    return work + bias",
         set()),
    ],
)  # fmt: skip
def test_tables_may_be_kept_and_memory_to_work_in_is_shared_by_calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, head: str, body: str, shared: set[str]
) -> None:
    found = parts(monkeypatch, tmp_path, body, head)
    assert [one for one in found.unreached if one.test.startswith("kept")] == []
    assert shared <= {one.test for one in found.shared}
    assert bool(shared) is bool(found.shared)


def test_an_error_of_the_device_hides_no_part_after_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A zero there breaks the device: all calls raise until a process begins anew."""
    body = """scale = gain * torch.ones(1)
    assert bool((scale != 0).all())
    y = x * scale + bias
    return y + torch.exp(-abs(x)) * 1e-9"""
    named = ["never mattered: torch.exp(-abs(x)) * 1e-09"]
    assert idle(monkeypatch, tmp_path, body, device="cuda") == named


def test_a_kernel_without_a_process_apart_has_no_such_part() -> None:
    async def nowhere(_: Scenario) -> None:
        return None

    source = "def run(x, bias, gain):\n    return x * gain + bias\n"
    candidate = Candidate(
        name="candidate",
        sources=(SourceFile(path="kernel.py", text=source),),
        entry_file="kernel.py",
        entry_function="run",
        language=Language.PYTHON,
    )
    parts = {"kernel.py": {(2, 11, 2, 19): frozenset({Instead.ZERO})}}
    trial = scaled_add()
    case = trial.cases("numeric")[0]
    steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"), ReadResult(result="r"))
    checked: Any = SimpleNamespace(
        right=((NUMERIC, Scenario(label="", cases=(case,), steps=steps)),)
    )
    found = idle_parts(trial, candidate, nowhere, checked, Reached(parts=parts, calls=1))
    assert found == IdleParts()
    assert asyncio.run(nowhere(checked.right[0][1])) is None


def test_a_part_is_told_as_it_is_read() -> None:
    told = Exchange(file="a.py", span=(2, 4, 2, 9), instead=Instead.FIRST).told
    assert told == ["a.py", 2, 4, 2, 9, "0"]
    file, *said = told
    found = read_reached({"files": {}, "lost": False, "parts": {file: [said]}})
    assert found.parts == {"a.py": {(2, 4, 2, 9): {Instead.FIRST}}}
    odd = {"files": {}, "lost": False, "parts": {"a.py": [[2, 4, 2, 9, "anything"]]}}
    assert read_reached(odd) == Reached()


def test_parts_for_which_no_time_was_left_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Effort, "exchange_s", -1.0)
    found = idle(monkeypatch, tmp_path, "return x * gain + bias")
    assert found == ["no time was left to exchange all parts of its code"]


def test_a_run_that_is_at_work_as_the_time_ends_is_ended_and_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A kernel that compiles for each size takes longer for one run than all may."""
    monkeypatch.setattr(Effort, "exchange_s", 0.2)
    ended = list[Scenario]()

    async def stuck(self: Here, scenario: Scenario) -> Ran | None:
        try:
            await asyncio.sleep(60.0)
        finally:
            ended.append(scenario)
        return None

    monkeypatch.setattr(Here, "exchanged", stuck)
    found = idle(monkeypatch, tmp_path, "return x * gain + bias", device="cuda")
    assert found == ["no time was left to exchange all parts of its code"]
    assert [one.label for one in ended] == ["parts of its code"]
