"""A process apart that is called as production calls looks like one that a user started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest
import torch

from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.steps import CallOften, Mode
from cuassay.sandbox.host.apart import Apart
from cuassay.sandbox.host.nursery import Nursery
from tests.support.workers import LIMITS, candidate, problem, tensor_spec

_DAY_S = 24 * 3600.0
_SIGNS = {
    "a user": "'USER' in os.environ and 'SHELL' in os.environ",
    "none of our variables": "not [n for n in os.environ if n.startswith(('PYTHON', 'GLIBC'))]",
    "a terminal": "sys.stdin.isatty() and sys.stdout.isatty()",
    "flags": "not (sys.flags.safe_path or sys.flags.dont_write_bytecode)",
    "a program": "sys.argv[0].endswith('.py') and sys.orig_argv[1:] == sys.argv",
    "a main module with a file": "sys.modules['__main__'].__file__.endswith('.py')",
    "threads": "torch.get_num_threads() > 1",
}
_CLOCKS = (
    "time.time()",
    "time.monotonic_ns() / 1e9",
    "time.perf_counter()",
    "time.process_time()",
    "datetime.datetime.now().timestamp()",
    "datetime.datetime.now(datetime.timezone.utc).timestamp()",
    "float(datetime.date.today().toordinal() * 24 * 3600)",
    "time.time() - os.stat('.').st_ctime",
)


def _given(case: Case) -> Mapping[str, torch.Tensor]:
    return {"x": torch.zeros(2)}


def _results(opened: Nursery, values: Sequence[str], mode: Mode) -> Iterator[list[float]]:
    """Yield what a kernel says of its process in each of two calls."""
    listed = ", ".join(f"float({one})" for one in values)
    text = f"import datetime\ndef run(x):\n    return torch.tensor([{listed}], dtype=torch.float64)"
    steps: list[object] = [Allocate(slot="a", case=0)]
    for name in ("r", "s"):
        steps += [Call(slot="a", result=name), ReadResult(result=name)]
    case = Case(label="0", axes={"n": len(values)})
    asked = problem(outputs=(tensor_spec("y", "float64", "n"),))
    scenario = Scenario(label="signs", cases=(case,), steps=tuple(steps), mode=mode)  # type: ignore[arg-type]
    with Apart(candidate(text), asked, device=CPU, nursery=lambda: opened, limits=LIMITS) as apart:
        run = apart.run(scenario, _given, fresh=True)
    for record in (run.result.records[2], run.result.records[4]):
        yield run.tensor(record.items[0]).tolist()  # type: ignore[union-attr]


def test_signs_of_a_judge_are_gone_where_calls_are_as_in_production(nursery: Nursery) -> None:
    for found in _results(nursery, list(_SIGNS.values()), Mode.APART):
        assert dict(zip(_SIGNS, found, strict=True)) == dict.fromkeys(_SIGNS, 1.0)


def test_each_of_them_tells_it_from_the_other_processes(nursery: Nursery) -> None:
    first, _ = _results(nursery, list(_SIGNS.values()), Mode.PLAIN)
    found = dict(zip(_SIGNS, first, strict=True))
    assert not [name for name, shown in found.items() if shown and name != "threads"]


def test_clocks_go_forward_by_days_between_calls_and_no_function_is_another(
    nursery: Nursery,
) -> None:
    first, second = _results(nursery, _CLOCKS, Mode.APART)
    for name, before, after in zip(_CLOCKS, first, second, strict=True):
        assert 39 * _DAY_S < after - before < 41 * _DAY_S, name
    kinds = ["type(time.time) is type(len)", "time.time.__module__ == 'time'"]
    assert [all(one) for one in _results(nursery, kinds, Mode.APART)] == [True, True]


def test_a_clock_runs_as_ever_within_the_first_call_and_in_other_processes(
    nursery: Nursery,
) -> None:
    lasts = ["-time.monotonic() + (time.sleep(0.05), time.monotonic())[1]"]
    (found,), (busy,) = _results(nursery, lasts, Mode.APART)
    assert 0.04 < found < 60.0
    assert 0.0505 < busy < 120.0  # 1 ms to 64 s more, as where others use the machine
    first, second = _results(nursery, _CLOCKS[:5], Mode.PLAIN)
    assert all(0 <= after - before < 600 for before, after in zip(first, second, strict=True))


def test_its_folder_is_not_among_temporary_files_and_it_writes_there(
    nursery: Nursery, walls: Mapping[str, str]
) -> None:
    if walls["private shared memory"] != "yes":
        pytest.skip(walls["private shared memory"])
    where = [
        "'tmp' not in os.getcwd() + __file__",
        "'sandbox' not in os.getcwd() + __file__",
        "__file__.startswith(os.getcwd())",
        "open('own', 'w').write('1') and os.path.exists(os.path.expanduser('~/own'))",
    ]
    for found in _results(nursery, where, Mode.APART):
        assert found == [1.0] * len(where)


def test_many_calls_are_one_request_and_the_last_result_is_read(nursery: Nursery) -> None:
    text = "N = [0]\ndef run(x):\n    N[0] += 1\n    return x + N[0]"
    often = CallOften(slot="a", most=1000, budget_s=60.0, result="r")
    steps = (Allocate(slot="a", case=0), often, ReadResult(result="r"))
    scenario = Scenario(label="many", cases=(Case(label="0", axes={"n": 2}),), steps=steps)
    with Apart(
        candidate(text), problem(), device=CPU, nursery=lambda: nursery, limits=LIMITS
    ) as apart:
        run = apart.run(scenario, _given, fresh=True)
    record = run.result.records[2]
    assert run.tensor(record.items[0]).tolist() == [3021.0, 3021.0]  # type: ignore[union-attr]
