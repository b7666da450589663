"""The corpus through SentryWard: what is asked, how answers are counted, and that it ends."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ptxsan.launch import Launch, TensorMap
from ptxsan.parser import parse
from ptxsan_corpus.corpus import KERNELS, prepare
from tests.support.benchmark_modules import loaded

_PTX = """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .f32 b, .param .u64 .ptr .global .align 1 c)
{
ret;
}
"""


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    monkeypatch.setenv("CUASSAY_RESULTS", str(tmp_path))
    yield from loaded(monkeypatch, "machine_sentryward", "sentryward_input", "common")


def _rows(benchmark: ModuleType, **results: tuple[str, str]) -> dict[str, Any]:
    def answer(result: str) -> dict[str, Any]:
        name, _, why = result.partition(" ")
        return {"answers": {"defaults": {"result": name, "why": why}}, "class": "race"}

    return {name: answer(said) | {"twin": twin} for name, (said, twin) in results.items()}


def test_scalars_and_pointers_that_are_null_are_declared_as_ptx_has_them(
    benchmark: ModuleType,
) -> None:
    one = (1, 1, 1)
    arguments = (struct.pack("<q", 7), struct.pack("<f", 0.5), bytes(8))
    launch = Launch(kernel="k", grid=one, block=(32, 1, 1), arguments=arguments)
    found = benchmark.kernel_input(parse(_PTX), launch, {"representative_branches": True})
    assert found["arguments"] == [
        {"parameter": 0, "type": "u64", "value": 7},
        {"parameter": 1, "type": "f32", "value": 0.5},
        {"parameter": 2, "type": "pointer", "value": None},
    ]
    assert found["declarations"] == [{"parameter": 2, "type": "pointer", "space": "global"}]
    assert found["assumptions"] == {"representative_branches": True}
    assert "cluster_dim" not in found["launch"]


def test_tensor_maps_keep_the_innermost_dimension_first(benchmark: ModuleType) -> None:
    kernel = KERNELS["tile_transpose_swizzled"]
    launch = prepare(kernel).launch
    params = ", ".join(
        f".param .align 64 .b8 p{i}[128]" if "Tile" in type(item).__name__ else f".param .u64 p{i}"
        for i, item in enumerate(kernel.arguments)
    )
    text = (
        f".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k({params})\n{{\nret;\n}}"
    )
    (first, *_) = benchmark.kernel_input(parse(text), launch, {})["tma_descriptors"]
    tile = next(item for item in launch.arguments if isinstance(item, TensorMap))
    assert first["global_shape"] == list(tile.sizes)
    assert first["coordinate_strides_bytes"][1:] == list(tile.strides)
    assert first["swizzle"] == f"{tile.swizzle}B"


def test_a_fault_is_found_where_its_twin_earns_no_alarm(benchmark: ModuleType) -> None:
    rows = _rows(
        benchmark,
        clean=("race_free", ""),
        alarmed=("potential_race", ""),
        open=("unsupported atomics", ""),
        found=("not_wellsynced", "clean"),
        missed=("race_free", "clean"),
        both=("potential_race", "alarmed"),
        named=("unsupported tma_rank_mismatch: coordinates", "clean"),
        silent=("timeout", "clean"),
        neither=("unsupported tma_rank_mismatch: coordinates", "open"),
    )
    judged = {name: benchmark.judged(row, rows, "defaults") for name, row in rows.items()}
    assert judged == {
        "clean": "clean",
        "alarmed": "false alarm",
        "open": "no answer",
        "found": "found",
        "missed": "missed",
        "both": "alarm, the twin's too",
        "named": "refused by name",
        "silent": "no answer",
        "neither": "no answer",
    }


def test_the_answer_of_several_launches_is_the_alarm_then_what_is_open(
    benchmark: ModuleType,
) -> None:
    free, open_, alarm = ({"result": r} for r in ("race_free", "timeout", "potential_race"))
    assert benchmark.worst([free, open_, alarm]) == alarm
    assert benchmark.worst([free, open_]) == open_


def test_a_tool_that_hangs_or_prints_no_answer_is_ended(benchmark: ModuleType) -> None:
    hangs = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert benchmark.told_by(hangs, 0.2)["diagnostics"] == [{"code": "TimeoutExpired"}]
    talks = [sys.executable, "-c", "print('no')"]
    assert benchmark.told_by(talks, 20.0)["result"] == "tool_failure"
    answers = [sys.executable, "-c", f"print({json.dumps(json.dumps({'result': 'race_free'}))})"]
    assert benchmark.told_by(answers, 20.0) == {"result": "race_free"}


def test_without_the_tool_nothing_runs(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmark.main(["--sentryward", str(tmp_path / "none")]) == 3
    assert "nothing was run" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
