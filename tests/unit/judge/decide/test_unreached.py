"""Code that no judged call ran is found to the line; guards of honest code are no such code."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import runpy
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
import torch

from cuassay.judge.decide.unreached import (
    undecided_in_kernels,
    unreached_code,
    unreached_in_host,
    unreached_in_kernels,
)
from cuassay.model.candidate import Candidate, Language, SourceFile
from cuassay.model.machine import LaunchEvidence, LineTrace, MachineEvidence, Outcome
from cuassay.model.reached import Reached, read_reached
from cuassay.sandbox.guest.process.notes import follow, watch


def unreached(folder: Path, source: str, *calls: tuple[object, ...]) -> list[tuple[int, int, str]]:
    """Return (first line, last line, test) of what calls of `run` do not run of a source."""
    path = folder / "kernel.py"
    path.write_text(source, encoding="utf-8")
    begin, end, found, _ = follow(str(folder))
    run = runpy.run_path(str(path))["run"]
    reached = Reached()
    for arguments in calls:
        begin()
        try:
            run(*arguments)
        finally:
            end()
        reached |= read_reached(found())
    made = unreached_code(candidate(source), reached)
    return [(one.line, one.last, one.test) for one in made]


def candidate(source: str, language: Language = Language.PYTHON) -> Candidate:
    """Return a candidate of one file."""
    return Candidate(
        name="candidate",
        sources=(SourceFile(path="kernel.py", text=source),),
        entry_file="kernel.py",
        entry_function="run",
        language=language,
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def run(x):\n    if x == 7:\n        x = 0\n    return x\n", [(3, 3, "x == 7")]),
        (
            "def run(x):\n    if x < 7:\n        return x\n    y = x\n    return y * 0\n",
            [(4, 5, "not (x < 7)")],
        ),
        ("def run(x):\n    return 0 if x == 7 else x\n", [(2, 2, "x == 7")]),
        ("def run(x):\n    return x and (x < 7 or wrong(x))\n", [(2, 2, "not (x < 7)")]),
        ("def run(x):\n    return [v * 0 for v in range(x) if v > 9]\n", [(2, 2, "an element")]),
        (
            "def run(x):\n    y = 0\n    if x < 7:\n        y = x\n    return y\n",
            [(3, 3, "always: x < 7")],
        ),
        ("def run(x):\n    while x > 7:\n        x -= 1\n    return x\n", [(3, 3, "x > 7")]),
        (
            "def run(x):\n    try:\n        return x\n    except OSError:\n        return 0\n",
            [(5, 5, "except OSError")],
        ),
        (
            "def run(x):\n    match x:\n        case 7:\n            return 0\n        case _:\n"
            "            return x\n",
            [(4, 4, "case 7")],
        ),
        (
            "def even(x):\n    return x\ndef odd(x):\n    return 0\n"
            "KINDS = {1: even, 7: odd}\ndef run(x):\n    return KINDS.get(x, even)(x)\n",
            [(4, 4, "calls of odd")],
        ),
        (
            "def run(x):\n    return {7: lambda: 0}.get(x, lambda: x)()\n",
            [(2, 2, "a lambda")],
        ),
        ("def run(x):\n    return eval('x')\n", [(2, 2, "code that is made at run time")]),
        (
            "import sys\ndef run(x):\n    sys.settrace(None)\n    getattr(sys, 'monitoring', sys)\n"
            "    if hasattr(sys, 'monitoring'):\n        sys.monitoring.free_tool_id(3)\n"
            "    else:\n        pass\n    return x\n",
            [(1, 1, "it ended the trace of its lines")],
        ),
    ],
)  # fmt: skip
def test_what_no_call_runs_is_found(
    tmp_path: Path, source: str, expected: list[tuple[int, int, str]]
) -> None:
    assert unreached(tmp_path, source, (1,), (3,))[: len(expected)] == expected


@pytest.mark.parametrize(
    "source",
    [
        "def run(x):\n    if x < 0:\n        raise ValueError(x)\n    return x\n",
        "def run(x):\n    assert x < 9 or x == 11, 'too large'\n    return x\n",
        "def run(x):\n    if x < 9:\n        return x\n    raise ValueError(f'{x}')\n",
        "def run(x):\n    if x > 9:\n        text = 'no'\n        if x > 11:\n"
        "            raise OSError(text)\n        else:\n            raise ValueError\n"
        "    return x\n",
        "def unused(x):\n    return 0\ndef run(x):\n    return x\n",
        "def run(x):\n    return x\nif __name__ == '__main__':\n    print(run(1))\n",
        "try:\n    import nothing_of_this_name\nexcept ImportError:\n    nothing = None\n"
        "def run(x):\n    return x\n",
        "import functools\n@functools.lru_cache\ndef half(x):\n    return x / 2\n"
        "def run(x):\n    '''Text.'''\n    return half(x) if x > 1 else half(x + 1)\n",
        "class Kernel:\n    def __init__(self):\n        self.n = 2\n"
        "    def __call__(self, x):\n        return x * self.n\n    def __repr__(self):\n"
        "        return 'Kernel'\nrun = Kernel()\n",
        "def jit(function):\n    return len\n@jit\ndef kernel(x):\n    return 0\n"
        "other = jit(lambda x: 0)\ndef run(x):\n    return x or kernel('')\n",
        "def run(x):\n    with open('/dev/null') as file:\n        for n in range(3):\n"
        "            if n == 2:\n                break\n            if n:\n"
        "                continue\n"
        "            pass\n    return x\n",
    ],
)
def test_guards_and_what_nothing_calls_are_no_such_code(tmp_path: Path, source: str) -> None:
    assert [o for o in unreached(tmp_path, source, (1,), (3,)) if o[2] != "not (x)"] == []


def test_further_calls_leave_less(tmp_path: Path) -> None:
    source = "def run(x):\n    if x == 7:\n        return 0\n    return 0 if x == 8 else x\n"
    assert len(unreached(tmp_path, source, (1,))) == 2
    assert unreached(tmp_path, source, (1,), (7,)) == [(4, 4, "x == 8")]
    assert unreached(tmp_path, source, (1,), (7,), (8,)) == []


def test_a_call_that_was_never_followed_says_nothing() -> None:
    source = "def run(x):\n    return x\n"
    assert unreached_code(candidate(source), Reached()) == ()
    raw = candidate(source, Language.CUDA_KERNEL)
    assert unreached_code(raw, Reached(calls=1)) == ()


def test_text_that_does_not_parse_is_passed_over() -> None:
    assert unreached_code(candidate("def run(x:\n"), Reached(calls=1)) == ()


def test_what_cuassay_wrote_around_a_candidate_is_left_out(tmp_path: Path) -> None:
    text = "def run(x):\n    if x > 9:\n        return 2\n    return 1\n"
    path = tmp_path / "kernel.py"
    path.write_text(text, encoding="utf-8")
    begin, end, found, _ = follow(str(tmp_path))
    run = runpy.run_path(str(path))["run"]
    begin()
    run(1)
    end()
    reached = read_reached(found())
    assert [one.line for one in unreached_code(candidate(text), reached)] == [3]
    assert unreached_code(dataclasses.replace(candidate(text), adapter="kernel.py"), reached) == ()


def constants(
    monkeypatch: pytest.MonkeyPatch, folder: Path, body: str, *calls: tuple[object, ...]
) -> list[str]:
    """Return the expressions that had one value in all calls of `run(x, rows, columns)`."""
    head = "import gc\nimport math\nimport os\nimport numpy as np\nimport torch\n"
    source = f"{head}def run(x, rows, columns):\n    {body}\n"
    path = folder / "kernel.py"
    path.write_text(source, encoding="utf-8")
    monkeypatch.setattr(SourceFileLoader, "get_code", SourceFileLoader.get_code)
    begin, end, found, *_ = watch(str(folder))
    spec = importlib.util.spec_from_file_location("kernel", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    expected = runpy.run_path(str(path))["run"]
    reached = Reached()
    for arguments in calls:
        begin()
        made = module.run(*arguments)
        end()
        same = expected(*arguments)
        assert torch.equal(torch.as_tensor(made), torch.as_tensor(same))
        reached |= read_reached({"files": {}, "lost": False} | found())
    return [one.test for one in unreached_code(candidate(source), reached)]


DOUBLE = """import torch
from torch.autograd.function import once_differentiable
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    {mark}
    def backward(ctx, grad):
        return grad.detach() * 2
def run(x):
    return Twice.apply(x)
"""


@pytest.mark.parametrize(("mark", "lines"), [("", [10]), ("@once_differentiable", [])])
def test_a_derivative_that_may_be_differentiated_again_is_named(
    tmp_path: Path, mark: str, lines: list[int]
) -> None:
    text = DOUBLE.format(mark=mark)
    path = tmp_path / "kernel.py"
    path.write_text(text, encoding="utf-8")
    begin, end, found, _ = follow(str(tmp_path))
    run = runpy.run_path(str(path))["run"]
    begin()
    run(torch.ones(3))
    end()
    named = unreached_code(candidate(text), read_reached(found()))
    assert [one.line for one in named if "gradients" in one.test] == lines


CORES, THREADS = os.cpu_count(), torch.get_num_threads()
CALLS = (
    (torch.tensor([[-1.0, 2.0], [3.0, -4.0]]), 3, 5),
    (torch.tensor([[5.0, -6.0], [-7.0, 8.0]]), 8, 4),
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return x * (1 - int(columns == 2 * rows))", ["always False: columns == 2 * rows"]),
        ("return x + 0 ** abs(rows - 77)", ["always 0: 0 ** abs(rows - 77)"]),
        ("return x + {64: 1}.get(rows, 0)", ["always 0: {64: 1}.get(rows, 0)"]),
        ("return x + [0, 1][rows > 70]", ["always False: rows > 70"]),
        ("return x * (rows > 2 and columns == 9)",
         ["always True: rows > 2", "always False: columns == 9"]),
        ("return x + float(rows == 3) * float(columns == 4)",
         ["always 0.0: float(rows == 3) * float(columns == 4)"]),
        ("return torch.where(x > 99.0, 0.0, x)", ["always false: x > 99.0"]),
        ("return x * ~(x == x[:1]).all(dim=-1, keepdim=True) + x * 0 - (x < 9) * 1.0",
         ["always zeros: x * 0", "always true: x < 9"]),
        ("return x + torch.relu(x - 99.0)", ["always zeros: torch.relu(x - 99.0)"]),
        ("return x * (1.0 + (os.cpu_count() > 10**9))", [f"always {CORES}: os.cpu_count()"]),
        ("return x * (0.0, 1.0)[gc.isenabled()]", ["always True: gc.isenabled()"]),
        ("return x * __import__('gc').isenabled()", ["always True: __import__('gc').isenabled()"]),
        ("return x * (torch.utils.data.get_worker_info() is None)",
         ["always None: torch.utils.data.get_worker_info()"]),
        ("return x + (torch.get_num_threads() > 10**9)",
         [f"always {THREADS}: torch.get_num_threads()"]),
        ("return (lambda y: y * (1 - (rows == 77)))(x)", ["always False: rows == 77"]),
        ("return x * len(torch.get_float32_matmul_precision())",
         ["always 'highest': torch.get_float32_matmul_precision()"]),
        ("return x + float(torch.distributed.is_initialized())",
         ["always False: torch.distributed.is_initialized()"]),
        ("for n in {64: (1.0,)}.get(rows, ()):\n        x = x * n\n    return x",
         ["always empty: {64: (1.0,)}.get(rows, ())"]),
        ("other = {64: x}.get(rows)\n    return x if other is None else x * 0",
         ["always None: {64: x}.get(rows)"]),
        ("return x + float(np.square(np.float64(rows > 77)))",
         ["always False: rows > 77"]),
        ("return x + np.exp(np.float64(-rows)) * 0.0",
         ["always np.float64(0.0): np.exp(np.float64(-rows)) * 0.0"]),
        ("return x + min(rows, 1 << 9)", ["always rows: min(rows, 1 << 9)"]),
        ("return x + rows % 4096 + (columns | 64) + max(5, rows)", ["always rows: rows % 4096"]),
        ("return x * torch.ones(99)[torch.tensor([rows])]",
         ["always 1 everywhere: torch.ones(99)[torch.tensor([rows])]"]),
    ],
)  # fmt: skip
def test_an_expression_that_never_changed_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, expected: list[str]
) -> None:
    assert constants(monkeypatch, tmp_path, body, *CALLS) == expected


@pytest.mark.parametrize(
    "body",
    [
        "return x.float() * (x > 0).to(x.dtype)",
        "return torch.where(x > 0, x, torch.zeros_like(x))",
        "return x * (x.dtype == torch.float32)",
        "return x * (x.shape[1] // 2)",
        "return x + torch.zeros(x.shape[0], 1) + min(rows, 4)",
        "assert rows < 99 and columns < 99\n    return x",
        "if rows > 99 or x.dim() > 2:\n        raise ValueError(rows)\n    return x",
        "return x.masked_fill(x > 2, float('-inf')) * 2",
        "return x if rows > 99 else x * 1.0",
        "name = 'rows' * rows\n    return x * len(name)",
        "return x + min(rows, 4) + rows % 7 + max(5, rows)",
        "return x.to(getattr(torch, 'float32'))",
        "return x * math.isqrt(4) / 2",
        "return x.to(dtype=torch.get_default_dtype())",
        "return x * (lambda: 1.0)()",
        "total = 0\n    for n in range(rows):\n        total += n % 2\n    return x + total",
        "return f'{rows > 99}' and x",
    ],
)
def test_ordinary_expressions_are_not_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str
) -> None:
    found = constants(monkeypatch, tmp_path, body, *CALLS)
    assert [one for one in found if one.startswith("always")] == []


def test_what_depends_on_time_is_named() -> None:
    source = (
        "import time\nfrom datetime import datetime as day\nBEGUN = time.monotonic()\n"
        "def run(x):\n    old = time.monotonic() - BEGUN\n    def late():\n"
        "        return day.now().hour > 9\n    timed = x.time()\n    return x + old + late()\n"
    )
    found = unreached_code(candidate(source), Reached(calls=1))
    clocks = [(one.line, one.test) for one in found if one.test.startswith("depends")]
    assert clocks == [
        (5, "depends on time: time.monotonic()"),
        (7, "depends on time: day.now()"),
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return x * len(os.environ['N'])", ["depends on the process: os.environ['N']"]),
        ("return x + rows + torch.is_grad_enabled()",
         ["always True: torch.is_grad_enabled()"]),
    ],
)  # fmt: skip
def test_what_follows_from_the_process_is_named_though_it_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, expected: list[str]
) -> None:
    body = f"os.environ.update(N=str(rows))\n    {body}"
    assert constants(monkeypatch, tmp_path, body, *CALLS) == expected


def test_an_expression_that_a_later_call_changes_is_not_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = "return x * (1 - int(columns == 2 * rows))"
    calls = (*CALLS, (torch.ones(2, 2), 4, 8))
    assert constants(monkeypatch, tmp_path, body, *calls) == []


@pytest.mark.parametrize("file", ["kernel.py", "inner/other.py"])
@pytest.mark.parametrize(
    ("source", "traced"),
    [
        ("import torch\nfast = torch.compile\n", True),
        ("import torch as t\nfast = t.compile(len)\n", True),
        ("from torch import compile as fast\nfast(len)\n", True),
        ("from torch import compile as fast\n", False),
        ("import torch._dynamo\n", False),
        ("import torch._dynamo\ntorch._dynamo.reset()\n", True),
        ("from torch.nn.attention.flex_attention import flex_attention as f\nG = f\n", True),
        ("def run(:\n", True),
        ("import torch  # torch.compile\nNOTE = 'torch.compile'\n", False),
        ("import re, triton\nWORD = re.compile('x')\nfast = triton.jit\n", False),
    ],
)
def test_code_that_a_compiler_traces_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, source: str, traced: bool
) -> None:
    """Names in code decide, not what comments and texts say."""
    other = tmp_path / file
    other.parent.mkdir(exist_ok=True)
    other.write_text(source, encoding="utf-8")
    monkeypatch.setattr(SourceFileLoader, "get_code", plain := SourceFileLoader.get_code)
    found = watch(str(tmp_path))[2]
    assert (SourceFileLoader.get_code is plain) is traced
    said = read_reached({"files": {}, "lost": False} | found())
    assert (said.traced is not None) is traced
    assert said.traced is None or said.traced[0] == file


def test_values_that_a_process_makes_up_are_cleaned_or_dropped() -> None:
    source = "def run(x):\n    return x * (x > 9)\n"
    said: dict[str, object] = {"files": {}, "lost": False}
    text = "false\n\x1b[31m"
    made = {"kernel.py": [[2, 16, 2, 21, text], [2, 16, 2, 17, "1", "2"]]}
    (found,) = unreached_code(candidate(source), read_reached(said | {"values": made}))
    assert "\n" not in found.test
    assert "\x1b" not in found.test
    for wrong in ({"kernel.py": [[1]]}, {"kernel.py": 3}, [1]):
        assert read_reached(said | {"values": wrong}) == Reached()


KERNEL = """__global__ void scale(float* x, int rows) {
  if (rows == 7) {
    x[0] = 0.0f;
    x[1] = 0.0f;
    assert(rows > 7);
  }
  x[2] = 1.0f;
}
"""


_RAN = (2, 3, 4, 5, 7)


def compared(*outcomes: tuple[int, int, str], ran: tuple[int, ...]) -> MachineEvidence:
    """Return a launch with what came of comparisons: line, column and `True`, `False`."""
    (launch,) = traced(ran).launches
    made = tuple(
        Outcome(
            file="k.cu",
            line=line,
            column=column,
            what="any",
            values=tuple(came.split()),
            compares="1" not in came and "3" not in came,
        )
        for line, column, came in outcomes
    )
    return MachineEvidence(launches=(dataclasses.replace(launch, outcomes=made),))


def traced(*executed: tuple[int, ...], inconclusive: str = "") -> MachineEvidence:
    """Return launches with, for each, the lines of which something ran; all have instructions."""
    return MachineEvidence(
        launches=tuple(
            LaunchEvidence(
                kernel="scale",
                grid=(1,),
                block=(1,),
                target="sm_80",
                inconclusive=inconclusive,
                lines=tuple(
                    LineTrace(file="k.cu", line=line, instructions=2, executed=2 * (line in ran))
                    for line in (2, 3, 4, 5, 7, 900)
                ),
            )
            for ran in executed
        )
    )


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([traced((2, 7))], [(3, 4)]),
        ([traced((2, 7)), traced((2, 4))], [(3, 3)]),
        ([traced((2, 4), (2, 7))], [(3, 3)]),
        ([traced((2, 3, 4, 7))], []),
        ([traced((2,), (3, 4))], [(7, 7)]),
        ([traced((2,), inconclusive="too long")], []),  # nobody knows
        ([], []),
    ],
)
def test_lines_of_kernels_that_no_traced_launch_ran_are_named(
    seen: list[MachineEvidence], expected: list[tuple[int, int]]
) -> None:
    sources = (
        SourceFile(path="src/k.cu", text=KERNEL),
        SourceFile(path="other.cuh", text=KERNEL),
    )
    made = dataclasses.replace(candidate("", Language.CUDA_KERNEL), sources=sources)
    found = unreached_in_kernels(made, seen)
    assert [(one.line, one.last) for one in found] == expected
    assert {one.file for one in found} <= {"src/k.cu"}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([compared((2, 7, "True"), ran=_RAN)] * 2,
         [(2, "one outcome each time: if (rows == 7) {")]),
        # What few launches ran is a compiler's variant.
        ([compared((2, 7, "True"), ran=_RAN)] * 2 + [compared(ran=_RAN)] * 3, []),
        ([compared((2, 7, "True"), ran=_RAN)] * 2 + [compared((2, 7, "False"), ran=_RAN)], []),
        # Two comparisons of a line are two, one that did not run says nothing.
        ([compared((2, 7, "True"), (2, 9, "True False"), ran=_RAN)] * 2,
         [(2, "one outcome each time: if (rows == 7) {")]),
        ([compared((2, 7, ""), ran=_RAN)] * 2, []),
        ([compared((4, 5, "1"), ran=_RAN)] * 2, [(4, "one outcome each time: x[1] = 0.0f;")]),
        ([compared((4, 5, "1"), ran=_RAN)] * 2 + [compared((4, 5, "0 3"), ran=_RAN)], []),
        # What a function of a library compares on the line that calls it
        ([compared((4, 1, "True"), ran=_RAN)] * 2, []),
    ],
)  # fmt: skip
def test_a_comparison_that_came_out_one_way_in_all_launches_is_named(
    seen: list[MachineEvidence], expected: list[tuple[int, str]]
) -> None:
    sources = (SourceFile(path="src/k.cu", text=KERNEL),)
    made = dataclasses.replace(candidate("", Language.CUDA_KERNEL), sources=sources)
    assert [(one.line, one.test) for one in undecided_in_kernels(made, seen)] == expected


_HOST = """#define CHECK(x) TORCH_CHECK(x.dim() == 2)
double factor(long rows) {
  CHECK(rows);
  double more = rows % 1021 == 7 ? 1.1 : 1.0;
  if (rows < 0) {
    throw 1;
  }
  if (rows > 500)
    more = 2.0;
  return more;
}
"""


def _of_host(*places: tuple[int, int, bool]) -> list[tuple[int, int]]:
    made = candidate(_HOST, Language.CUDA_EXTENSION)
    reached = Reached(host={"/build/src/kernel.py": frozenset(places)}, calls=1)
    return [(one.line, one.last) for one in unreached_in_host(made, reached)]


def test_a_choice_of_cpp_that_never_came_out_the_other_way_is_named() -> None:
    assert _of_host((4, -1, True), (4, 0, False), (4, 1, True)) == [(4, 4)]
    assert _of_host((4, -1, True), (4, 0, False), (4, 1, True), (4, 0, True)) == []


def test_lines_of_cpp_that_did_not_run_are_named_but_for_errors() -> None:
    ran = ((10, -1, True), (8, -1, True), (8, 0, True), (8, 1, True))
    assert _of_host(*ran, (9, -1, False)) == [(9, 9)]
    # A check of an argument, by a macro too, is no part of what is judged.
    checks = ((3, -1, True), (3, 0, False), (3, 1, True))
    assert _of_host(*checks, (5, -1, True), (5, 0, False), (5, 1, True), (6, -1, False)) == []


def test_cpp_of_no_source_is_not_named() -> None:
    made = candidate(_HOST, Language.CUDA_EXTENSION)
    elsewhere = Reached(host={"torch.h": frozenset({(4, -1, False)})}, calls=1)
    assert unreached_in_host(made, elsewhere) == ()
