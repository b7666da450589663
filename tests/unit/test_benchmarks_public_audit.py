"""The public audit: sets as published, which kernels a call judges, rows, tables and pictures."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from cuassay.audit.lists import read_list
from cuassay.model import serial
from cuassay.model.device import CUDA
from cuassay.model.diagnosis import Cause, Diagnosis
from cuassay.model.outcome import FindingClass
from cuassay.model.verdict import Decision
from tests.support import audits
from tests.support.benchmark_modules import loaded

_SIDECAR = """
# ==================================================================
# ===== sidecar: ops.cu (17 bytes, loaded by solution.py) =====
# ==================================================================

// what it loads
"""
_MODEL = "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n"
_TRITON = (
    "# agent name: KernelAgent 4o speedup: 1.06x\nimport triton\n\n"
    f"@triton.jit\ndef k():\n    pass\n\n{_MODEL}"
)
_CALL = {
    "begins_after": 0,
    "started_at": "2026-11-23T12:00:00Z",
    "version": "0.1.0",
    "device": "cpu",
    "profile": "quick",
    "again": False,
    "machine": {"device": "CPU", "cores": "2", "python": "3.11", "torch": "2.13", "triton": "3.6"},
}


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    names = ("kernel_sets", "trials", "public_audit_rows", "public_audit_imports",
             "public_audit_figures", "public_audit_report", "common")  # fmt: skip
    for made in loaded(monkeypatch, "public_audit", *names):
        yield {"public_audit": made, **{name: sys.modules[name] for name in names}}


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """Local copies of five sets, made up, with tasks of odd number among them."""
    root = tmp_path / "sets"
    filtered = root / "KernelBenchFiltered"
    for number in (2, 3):
        _write(filtered / "best_agent_solutions" / "level_1" / f"task_{number}.py", _TRITON)
        _write(filtered / "tasks" / "level_1" / f"{number}_Softmax.py", _MODEL)
        folder = root / "cudabeaver" / "data" / f"kernelbench_level1_{number}__logic_error__ab"
        _write(folder / "broken_start.cu", "__global__ void k() {}\nclass ModelNew(Model): ...\n")
        _write(folder / "reference.py", _MODEL)
        source = {"path": "kernel.py", "content": "x = {'waves_per_eu': 2}\n"}
        solution = {"definition": "rmsnorm", "sources": [source]}
        published = {"submit": solution, "model": "m", "correct": number == 2}
        runs = root / "sol" / "runs" / str(number) / "candidates"
        _write(runs / "c0.json", json.dumps(published))
        _write(root / "sol" / "problems" / str(number) / "definition.json", "{}")
    lines = [
        {"level_id": 1, "task_id": task, "ref_code": _MODEL, "custom_code": code}
        for task, code in (
            (2, "class ModelNew: ..."),
            (4, None),
            (5, "class ModelNew: ..."),
            (6, "None\n"),
        )
    ]
    _write(root / "cuda-l1" / "h100-even.jsonl", "\n".join(map(json.dumps, lines)))
    _write(root / "kernelbench" / "KernelBench" / "level1" / "2_Softmax.py", _MODEL)
    decks = root / "kernelbench.com" / "benchmarks"
    _write(decks / "mini" / "problems-h100" / "03_topp_mask" / "reference.py", _MODEL)
    _write(decks / "hard" / "problems-h100" / "01_fp8_gemm" / "reference.py", _MODEL)
    public = root / "kernelbench.com" / "public"
    names = "041808_codex_gpt-5.5_03_topp_mask", "041808_a_b_01_fp8_gemm", "041809_a_b_01_fp8_gemm"
    for run in (f"20260618_{name}" for name in names):
        _write(public / "runs" / "h100" / f"{run}_solution.py.txt", _MODEL + _SIDECAR)
    cell = {"run_id": "20260618_041808_codex_gpt-5.5_03_topp_mask", "correct": False}
    _write(public / "data" / "catalog.json", json.dumps({"cells": [cell]}))
    return root


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _given(audit: ModuleType, tmp_path: Path, *more: str) -> argparse.Namespace:
    places = ["--runs", str(tmp_path / "runs"), "--packed", str(tmp_path / "packed")]
    given: argparse.Namespace = audit.options([*places, *more])
    return given


def _row(modules: dict[str, ModuleType], number: int, verdict: str, **changes: Any) -> Any:
    kernel = modules["kernel_sets"].Kernel(
        set="sol", name=f"2/{number}", path="a", problem="b", operator="rmsnorm", model="m",
        theirs=True, digest=f"{number:064x}", language="triton",
    )  # fmt: skip
    fields = {
        "profile": "quick", "device": "cpu", "verdict": verdict, "ending": "judged",
        "seconds": 6.0, "judged_at": "1", "machine": "CPU", "versions": "torch", "source": "here",
    }  # fmt: skip
    about = modules["public_audit_rows"].about_kernel(kernel)
    return modules["public_audit_rows"].Row(**{**about, **fields, **changes})


def test_sets_hold_even_tasks_alone_with_what_is_published(
    modules: dict[str, ModuleType], copies: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = modules["kernel_sets"]
    kernels = sets.pack(copies, None, tmp_path / "packed", sets.PUBLISHED)
    by_key = {kernel.key: kernel for kernel in kernels}
    assert sorted(by_key) == [
        "cuda-l1/1-2",
        "cudabeaver/level1_2/logic_error/ab",
        "cudabeaver/level1_2/reference/ab",
        "kernelbench-filtered/level1_2",
        "kernelbench.com/20260618_041808_a_b_01_fp8_gemm",
        "kernelbench.com/20260618_041808_codex_gpt-5.5_03_topp_mask",
        "sol/2/c0",
    ]
    agent = by_key["kernelbench.com/20260618_041808_codex_gpt-5.5_03_topp_mask"]
    assert (agent.model, agent.theirs, agent.operator) == ("gpt-5.5", False, "03_topp_mask")
    folder = (tmp_path / "packed" / agent.path).parent
    assert (folder / "solution.py").read_text().strip() == _MODEL.strip()
    assert (folder / "ops.cu").read_text() == "// what it loads\n"
    best = by_key["kernelbench-filtered/level1_2"]
    assert (best.model, best.language, best.theirs) == ("4o", "triton", True)
    assert best.digest == sets.digest_of([_TRITON])
    assert by_key["cuda-l1/1-2"].operator == "2_Softmax"
    broken = by_key["cudabeaver/level1_2/logic_error/ab"]
    assert (broken.theirs, broken.label, broken.language) == (False, "wrong", "cuda")
    assert by_key["cudabeaver/level1_2/reference/ab"].kind == "reference"
    said = capsys.readouterr().out
    assert "set reference-kernels: holds no kernel" in said
    assert sets.read_index(tmp_path / "packed") == kernels


def test_packed_sources_run_as_candidates_and_digests_are_of_the_published_ones(
    modules: dict[str, ModuleType], copies: Path, tmp_path: Path
) -> None:
    sets, packed = modules["kernel_sets"], tmp_path / "packed"
    kernels = {k.key: k for k in sets.pack(copies, None, packed, sets.PUBLISHED)}
    best = kernels["kernelbench-filtered/level1_2"]
    assert (packed / best.path).read_text().endswith("ModelNew = Model\n")
    assert (packed / best.problem).name == "2_Softmax.py"
    beaver = kernels["cudabeaver/level1_2/logic_error/ab"]
    assert "ModelNew = Model" not in (packed / beaver.path).read_text()
    solution = json.loads((packed / kernels["sol/2/c0"].path).read_text())
    assert "waves_per_eu" not in solution["sources"][0]["content"]
    assert kernels["sol/2/c0"].digest == sets.digest_of(["x = {'waves_per_eu': 2}\n"])


def test_every_kernel_is_in_one_part_and_the_audit_reads_the_list(
    modules: dict[str, ModuleType], copies: Path, tmp_path: Path
) -> None:
    audit, sets = modules["public_audit"], modules["kernel_sets"]
    kernels = sets.pack(copies, None, tmp_path / "packed", sets.PUBLISHED)
    parts = [
        audit.chosen(_given(audit, tmp_path, "--part", f"{index}/3"), kernels, "cpu")
        for index in (1, 2, 3)
    ]
    assert sorted(k.key for part in parts for k in part) == sorted(k.key for k in kernels)
    audit.write_list(kernels, tmp_path / "packed", tmp_path / "list.jsonl")
    tree = read_list(tmp_path / "list.jsonl")
    assert [pair.candidate.name for pair in tree.pairs] == [k.key for k in kernels]
    assert not tree.oddities
    pair = next(p for p in tree.pairs if p.candidate.name == "kernelbench-filtered/level1_2")
    assert (pair.family, pair.candidate.author) == ("softmax", "4o")
    assert Path(pair.problem.where).is_file()
    assert Path(pair.candidate.where).is_file()
    both = audit.chosen(_given(audit, tmp_path, "--part", "2-3/3"), kernels, "cpu")
    assert sorted(k.key for k in both) == sorted(k.key for part in parts[1:] for k in part)
    assert str(audit.part_named("2-3/3")) == "2-3of3"
    for part in ("4/3", "0/3", "3-2/3", "1"):
        with pytest.raises(SystemExit):
            _given(audit, tmp_path, "--part", part)


def test_a_second_look_takes_what_is_not_accepted_and_other_seeds_what_is_decided(
    modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    audit, sets = modules["public_audit"], modules["kernel_sets"]
    verdicts = {1: "ACCEPTED", 2: "REJECTED", 3: "INCONCLUSIVE", 4: ""}
    rows = [_row(modules, number, verdict) for number, verdict in verdicts.items()]
    monkeypatch.setattr(audit, "read_rows", lambda runs, **published: rows)
    kernels = [
        sets.Kernel(set="sol", name=f"2/{n}", path="", problem="", digest=f"{n:064x}")
        for n in (1, 2, 3, 4, 5)
    ]

    def names(*more: str) -> list[str]:
        given = _given(audit, tmp_path, *more)
        return [kernel.name for kernel in audit.chosen(given, kernels, "cpu")]

    assert names("--undecided") == ["2/2", "2/3", "2/4"]
    assert names("--again", "9") == ["2/1", "2/2"]
    assert len(names("--again", "1")) == 1
    assert names() == ["2/1", "2/2", "2/3", "2/4", "2/5"]
    assert names("--left") == ["2/5", "2/3", "2/4"]
    other = dataclasses.replace(kernels[0], set="cuda-l1", name="1-2", digest="f" * 64)
    told = [*kernels, dataclasses.replace(kernels[0], name="2/6"), other]
    assert [kernel.name for kernel in audit.left(told, rows)] == ["2/5", "1-2", "2/6", "2/3", "2/4"]
    tried = audit.left(told, rows, tried_first=True)
    assert [kernel.name for kernel in tried] == ["2/3", "2/4", "2/5", "1-2", "2/6"]
    rows.append(_row(modules, 2, "REJECTED", again=True))
    for more, expected in (((), "4 of 5"), (("--again", "9"), "1 of 5")):
        said = audit.progress(rows, kernels, _given(audit, tmp_path, *more))
        assert said == f"quick: {expected} kernels have a row"


def test_rows_name_the_call_that_judged_them_and_the_last_result_counts(
    modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    rows, sets = modules["public_audit_rows"], modules["kernel_sets"]
    kernel = sets.Kernel(
        set="sol", name="2/a", path="", problem="", operator="rmsnorm", model="m", digest="d"
    )
    other = dataclasses.replace(kernel, name="2/b")
    sets.write_index([kernel, other], tmp_path)
    folder = tmp_path / "quick-cpu-1of1"
    folder.mkdir()
    made = Diagnosis(cause=Cause.RACE, words="w", remedy="r")
    wrong = audits.finding(0, finding_class=FindingClass.WRONG, classes=("N1", "N2"))
    advice = audits.finding(1, finding_class=FindingClass.ADVICE, classes=("S2",))
    first = audits.result(1, verdict=Decision.INCONCLUSIVE)
    first = dataclasses.replace(
        first, item=dataclasses.replace(first.item, candidate_name=kernel.key)
    )
    last = dataclasses.replace(
        first,
        verdict=Decision.REJECTED,
        findings=(wrong, advice),
        diagnoses=(made, made),
        conditions=("layouts: x", "device: y"),
    )
    second = audits.result(2, verdict=Decision.ACCEPTED)
    second = dataclasses.replace(
        second, item=dataclasses.replace(second.item, candidate_name=other.key)
    )
    text = "".join(serial.dumps(result) + "\n" for result in (first, last, second))
    (folder / "results.ndjson").write_text(text)
    calls = [_CALL, {**_CALL, "begins_after": 2, "version": "0.2.0"}]
    rows.calls_file(folder).write_text("".join(json.dumps(call) + "\n" for call in calls))
    assert rows.results_written(folder) == 3
    found = rows.read_rows(tmp_path)
    assert [(row.name, row.verdict, row.version) for row in found] == [
        ("2/a", "REJECTED", "0.1.0"),
        ("2/b", "ACCEPTED", "0.2.0"),
    ]
    assert found[0].causes == ("race",)
    assert found[0].classes == ("N1",)
    assert found[0].checks == (wrong.code,)
    assert found[0].own_conditions == {"layouts"}
    assert found[0].versions == "Python 3.11, torch 2.13, Triton 3.6"


def test_the_latest_row_counts_and_a_gpu_before_a_cpu(modules: dict[str, ModuleType]) -> None:
    latest = modules["public_audit_rows"].latest
    gpu = _row(modules, 1, "REJECTED", device="cuda", judged_at="1")
    cpu = _row(modules, 1, "ACCEPTED", judged_at="2")
    again = _row(modules, 1, "ACCEPTED", device="cuda", judged_at="9", again=True)
    timeout = _row(modules, 1, "", device="cuda", judged_at="8", ending="timeout")
    newer = _row(modules, 1, "ACCEPTED", device="cuda", judged_at="7")
    assert latest([gpu, cpu, again, timeout]) == [gpu]
    assert latest([newer, gpu, timeout]) == [newer]
    assert latest([gpu, cpu], device="cpu") == [cpu]
    assert latest([timeout]) == [timeout]


def test_rows_of_earlier_runs_become_rows(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    imports, sets = modules["public_audit_imports"], modules["kernel_sets"]
    about = {"path": "", "problem": "", "operator": "rmsnorm", "digest": "d"}
    runs = tmp_path / "runs"
    runs.mkdir()
    known = [
        sets.Kernel(set="sol", name="2/a", **about),
        sets.Kernel(set="sol-references", name="7", kind="reference", **about),
    ]
    sets.write_index(known, runs)
    wild = [
        {"set": "sol", "name": "2/a", "profile": "quick", "decision": "REJECTED", "seconds": 3,
         "checks": {"STATE001": 2}, "conditions": ["graphs"], "reason": "r"},
        {"set": "sol", "name": "3/unknown", "decision": "ACCEPTED", "seconds": 3},
    ]  # fmt: skip
    _write(tmp_path / "wild.ndjson", "".join(json.dumps(row) + "\n" for row in wild))
    foreign = {"profile": "quick", "rows": [{"key": "sol/7", "ending": "TIMEOUT", "seconds": 90,
                                             "checks": ["RACE001:inconclusive"]}]}  # fmt: skip
    _write(tmp_path / "foreign.json", json.dumps(foreign))
    library = {"kernels": [{"kernel": "liger_rms_norm", "problem": "rmsnorm", "dtype": "float16",
                            "decision": "ACCEPTED", "seconds": 9.0, "seed": 4}]}  # fmt: skip
    _write(tmp_path / "trusted.json", json.dumps(library))
    world = [
        {"key": "k", "kind": kind, "name": name, "problem": "swiglu", "dtype": "float16",
         "profile": "quick", "seed": 7, "decision": "REJECTED", "codes": ["NUM001"],
         "conditions": ["sizes: rows to 50 of 4,096"], "seconds": 9.0}
        for kind, name in (("world", "fla/swish"), ("rejected", "transformers/L2Norm"),
                           ("model", "rope_neox"))
    ]  # fmt: skip
    _write(tmp_path / "world.ndjson", "".join(json.dumps(row) + "\n" for row in world))
    runs_of = {"evening": {"rows": [{**world[0], "kernel": "conch/silu"}]}, "profile": "quick"}
    _write(tmp_path / "several.json", json.dumps({"results": runs_of}))
    origin = imports.Origin(device=CUDA, machine="H200", versions="v", judged_at="1", version="0")
    for name in ("wild.ndjson", "foreign.json", "trusted.json", "world.ndjson"):
        imports.import_rows(tmp_path / name, runs, origin)
    evening = dataclasses.replace(origin, section="evening")
    [late] = imports.import_rows(tmp_path / "several.json", runs, evening)
    assert (late.name, late.source) == ("conch/silu/swiglu/float16", "several-evening.json")
    found = {row.key: row for row in modules["public_audit_rows"].read_rows(runs)}
    assert set(found) == {
        "sol/2/a",
        "sol-references/7",
        "trusted-libraries/liger_rms_norm/rmsnorm/float16",
        "trusted-libraries/fla/swish/swiglu/float16",
        "trusted-libraries/conch/silu/swiglu/float16",
    }
    swish = found["trusted-libraries/fla/swish/swiglu/float16"]
    assert (swish.language, swish.checks, swish.conditions) == ("triton", ("NUM001",), ("sizes",))
    assert found["sol/2/a"].checks == ("STATE001",)
    assert found["sol/2/a"].classes
    assert (found["sol-references/7"].verdict, found["sol-references/7"].ending) == ("", "timeout")
    assert found["sol-references/7"].checks == ()
    assert found["trusted-libraries/liger_rms_norm/rmsnorm/float16"].kind == "library"


def test_shares_count_decided_kernels_that_their_publisher_accepts(
    modules: dict[str, ModuleType],
) -> None:
    report = modules["public_audit_report"]
    rows = [_row(modules, n, "REJECTED" if n < 3 else "ACCEPTED") for n in range(10)]
    rows += [_row(modules, 20, "REJECTED", published=False), _row(modules, 21, "INCONCLUSIVE")]
    rows += [_row(modules, 22, "REJECTED", kind="reference")]
    text = report.by_group(rows, "family", lambda row: [row.family])
    assert "| norm | 3 of 10: 30% (11% to 60%) |" in text
    assert report.share(0, 0) == "none"
    assert "| publisher rejects | 1 | 0 | 1 of 1: 100%" in report.rules(rows)


def test_seeds_agree_or_the_kernel_is_named(modules: dict[str, ModuleType]) -> None:
    report = modules["public_audit_report"]
    rows = [_row(modules, n, "ACCEPTED") for n in range(4)]
    rows += [_row(modules, n, "ACCEPTED", again=True) for n in range(3)]
    rows.append(_row(modules, 2, "REJECTED", judged_at="0"))  # before a repair: not compared
    assert "3 of 3: 100%" in report.agreement(rows)
    rows += [_row(modules, 3, "REJECTED", again=True), _row(modules, 9, "REJECTED", again=True)]
    text = report.agreement(rows)
    assert "3 of 4: 75%" in text
    assert "`sol/2/3` ACCEPTED, then REJECTED" in text


def test_rulings_count_refuted_ones_and_refuse_an_unknown_status(
    modules: dict[str, ModuleType],
) -> None:
    report = modules["public_audit_report"]
    made = {"rejected_by": "race", "route": "read", "needs": "sizes", "reading": "r"}
    rulings = [
        report.Ruling(key=f"k{n}", status=status, **made)
        for n, status in enumerate(("confirmed", "confirmed", "refuted", "open"))
    ]
    rows = [_row(modules, 2, "REJECTED"), _row(modules, 5, "REJECTED")]
    rulings.append(report.Ruling(key="sol/2/2", status="refuted", **made))
    text = report.adjudicated(rulings, rows)
    assert "| race | 5 | 2 | 2 | 1 |" in text
    assert "Refuted of the settled: 2 of 4: 50%" in text
    assert "| other sizes | 2 of 2: 100%" in text
    assert "still REJECTED in the latest rows: `sol/2/2`." in text
    assert report.cause_of(rows[0], rulings) == "race"
    again = [*rulings, report.Ruling(key="sol/2/2", status="confirmed", **made)]
    assert "still REJECTED in the latest rows: none." in report.adjudicated(again, rows)
    rulings.append(report.Ruling(key="sol/2/5", status="confirmed", **made))
    rows.append(_row(modules, 7, "REJECTED"))
    text = report.counts(rows, [], rulings)
    assert "1 refuted" in text
    assert "1 wrong only at sizes that the benchmark does not list" in text
    assert "1 not settled" in text
    rulings.pop()
    assert report.cause_of(rows[1], rulings) == "not kept in the row"
    with pytest.raises(ValueError, match="status 'sure'"):
        report.Ruling(key="k", status="sure", **made)


def test_production_counts_conditions_and_rejections_on_a_gpu_alone(
    modules: dict[str, ModuleType],
) -> None:
    report = modules["public_audit_report"]
    rows = [
        _row(modules, 1, "ACCEPTED", device="cuda", conditions=("streams", "sizes")),
        _row(modules, 2, "REJECTED", device="cuda", checks=("GRAPH001",)),
        _row(modules, 3, "ACCEPTED", device="cuda", conditions=("threads",)),
        _row(modules, 4, "ACCEPTED", conditions=("streams",)),
        _row(modules, 5, "INCONCLUSIVE", device="cuda", conditions=("graphs",)),
    ]
    text = report.production(rows)
    family = rows[0].family
    assert f"| {family} | 3 | 1 | 1 | 1 | 0 | 0 |" in text
    assert "| all | 3 | 1 of 3: 33%" in text
    assert rows[0].own_conditions == {"streams"}
    assert rows[3].own_conditions == frozenset()


def test_labels_name_the_wrong_kernels_that_passed(modules: dict[str, ModuleType]) -> None:
    rows = [
        _row(modules, 1, "ACCEPTED", label="wrong", conditions=("layouts: contiguous",)),
        _row(modules, 2, "REJECTED", label="wrong"),
        _row(modules, 3, "INCONCLUSIVE", label="wrong"),
        _row(modules, 4, "ACCEPTED", label="correct"),
        _row(modules, 5, "ACCEPTED"),
    ]
    text = modules["public_audit_report"].labels(rows)
    assert "| sol | wrong | 3 | 1 | 1 | 1 |" in text
    assert "| sol | correct | 1 | 1 | 0 | 0 |" in text
    assert text.endswith("Labeled wrong and ACCEPTED: `sol/2/1` under layouts: contiguous.")


def test_libraries_are_told_apart_by_package_and_device(modules: dict[str, ModuleType]) -> None:
    report = modules["public_audit_report"]
    about = {"kind": "library", "label": "correct", "model": "liger"}
    rows = [_row(modules, n, "ACCEPTED", **about) for n in range(3)]
    rows += [_row(modules, 3, "REJECTED", **about), _row(modules, 4, "", device="cuda", **about)]
    text = report.libraries(rows)
    assert "| liger | a CPU | 4 | 3 | 1 | 0 |" in text
    assert "| liger | a GPU | 1 | 0 | 0 | 1 |" in text
    assert "have to be ACCEPTED: 1 of 4: 25%" in report.counts(rows, [], [])


def test_the_report_is_the_same_twice_and_its_pictures_are_xml(
    modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    report, sets = modules["public_audit_report"], modules["kernel_sets"]
    runs = tmp_path / "runs"
    (runs / "imported").mkdir(parents=True)
    sets.write_index([], runs)
    rows = [
        _row(modules, n, "REJECTED" if n % 3 else "ACCEPTED", causes=("race",)) for n in range(9)
    ]
    lines = "".join(json.dumps(dataclasses.asdict(row)) + "\n" for row in rows)
    (runs / "imported" / "a.ndjson").write_text(lines)
    document = tmp_path / "audit.md"
    document.write_text("words\n<!-- begin sets -->\nold\n<!-- end sets -->\nmore\n")
    page = tmp_path / "page.md"
    page.write_text("<!-- begin summary -->\n<!-- end summary -->\n")
    given = argparse.Namespace(
        runs=runs, adjudication=tmp_path / "none.json", document=document, pictures=tmp_path,
        results=tmp_path / "data.json", page=page,
    )  # fmt: skip
    assert report.write(given) == 0
    first = document.read_text()
    assert "old" not in first
    assert "| sol |" in first
    ends = "| generated kernels | 9 of 0 tried: 3 ACCEPTED, 6 REJECTED, 0 INCONCLUSIVE, 0 without"
    assert ends in page.read_text()
    assert first.startswith("words\n")
    assert report.write(given) == 0
    assert document.read_text() == first
    for name in ("sets", "families", "causes"):
        ElementTree.parse(tmp_path / f"audit-2026-{name}.svg")
    data = json.loads((tmp_path / "data.json").read_text())
    assert len(data["rows"]) == 9
    assert list(data["folders"]) == ["imported"]
    # The folders are gone: their rows and digests stay.
    (runs / "imported" / "a.ndjson").unlink()
    (runs / "imported").rmdir()
    assert report.write(given) == 0
    assert document.read_text() == first
    assert json.loads((tmp_path / "data.json").read_text()) == data
    document.write_text("<!-- begin shapes -->\n<!-- end shapes -->")
    with pytest.raises(ValueError, match="shapes"):
        report.write(given)
    nowhere = argparse.Namespace(runs=tmp_path / "nowhere", results=tmp_path / "nowhere.json")
    assert report.write(nowhere) == 2


def test_commands_end_at_their_limit_and_a_journal_goes_on(
    modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    trials, figures = modules["trials"], modules["public_audit_figures"]
    each_s = {"print(7)": 300.0, "import time; time.sleep(600)": 0.2}
    ended: dict[str, Any] = {}
    for code, most_s in each_s.items():
        side = trials.SideBySide(jobs=2, each_s=most_s, limit_s=0.0, gpus=0, home=tmp_path)

        def one(code: str, place: Any, side: Any = side) -> None:
            ended[code] = side.end([sys.executable, "-c", code], place)

        side.all([code], one)
    printed, slept = ended.values()
    assert printed.said == "7\n"
    assert printed.code == 0
    assert slept.timed_out
    late = trials.SideBySide(jobs=1, each_s=1.0, limit_s=1.0, gpus=0, home=tmp_path)
    assert late.end(["true"], trials.Place(number=0, gpu=None)) is None
    file = tmp_path / "rows.ndjson"
    journal = trials.Journal(file, figures.Bar, lambda row: row.name, resume=False)
    journal.keep(figures.Bar(name="a", hits=1, total=2), "line")
    journal.keep(figures.Bar(name="a", hits=2, total=2), "line")
    again = trials.Journal(file, figures.Bar, lambda row: row.name, resume=True)
    assert again.rows == {"a": figures.Bar(name="a", hits=2, total=2)}
    assert not trials.Journal(file, figures.Bar, lambda row: row.name, resume=False).rows
