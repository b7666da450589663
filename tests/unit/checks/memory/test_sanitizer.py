"""MEM003: reports of compute-sanitizer as records, and what of them is a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.checks.memory.sanitizer import Mem003
from cuassay.checks.memory.sanitizer_report import Record, find_sanitizer, of_kernels, parse_report
from cuassay.errors import CannotJudgeError
from cuassay.model.device import CUDA
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Mode
from cuassay.model.trace import Finished, ScenarioResult, StepDone
from cuassay.model.verdict import Profile
from cuassay.sandbox.ran import Ran
from tests.support.fake_trial import scaled_add

WRITE = """<record>
  <kind>Precise</kind><level>Error</level>
  <what><text>Invalid __global__ write of size 4 bytes</text><size>4</size>
    <accessAddress>0x7f10</accessAddress></what>
  <where><func>void scale_rows(float *, long)</func><path>/src/rows/kernel.cu</path>
    <line>21</line></where>
  <who><threadIdx><x>3</x><y>0</y><z>0</z></threadIdx>
    <blockIdx><x>2</x><y>0</y><z>0</z></blockIdx></who>
  <hostStack><saveLocation>kernel launch time</saveLocation>
    <frame><func>cuLaunchKernel</func><module>/usr/lib/libcuda.so.1</module></frame>
    <frame><func>launch_rows</func><module>/src/rows/own.so</module></frame></hostStack>
</record>"""
TORCH = WRITE.replace("void scale_rows(float *, long)", "at::native::copy_kernel(scale_rows)")
TEXT = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 2 bytes
=========     at scale_rows(float *)+0x160 in kernel.cu:6
=========     by thread (3,0,0) in block (2,0,0)
=========     Address 0x7f6510c00001 is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: cuLaunchKernel [0x1] in libcuda.so.1
=========
========= Warning: Race reported between Write access at add_rows(int*)+0x80 in race.cu:12
=========     and Read access at add_rows(int*)+0xb0 in race.cu:15 [4 hazards]
=========
========= ERROR SUMMARY: 2 errors
"""


def report(*records: str) -> str:
    return (
        f"<?xml version='1.0'?><ComputeSanitizerOutput>{''.join(records)}</ComputeSanitizerOutput>"
    )


def test_a_record_of_xml_is_read_whole() -> None:
    (record,) = parse_report(report(WRITE))
    assert record == Record(
        kind="Precise",
        level="error",
        text="Invalid __global__ write of size 4 bytes",
        kernel="void scale_rows(float *, long)",
        at="kernel.cu:21",
        address="0x7f10",
        size="4",
        block="2,0,0",
        thread="3,0,0",
        host="launch_rows",
    )


def test_text_is_read_where_there_is_no_xml() -> None:
    read, race = parse_report("", TEXT)
    assert (read.kernel, read.at, read.thread) == ("scale_rows(float *)", "kernel.cu:6", "3,0,0")
    assert read.address == "0x7f6510c00001"
    assert (race.level, race.kernel, race.at) == ("warning", "add_rows(int*)", "race.cu:12")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<ComputeSanitizerOutput><record>",
        "<!DOCTYPE x [<!ENTITY a 'b'>]><ComputeSanitizerOutput>&a;</ComputeSanitizerOutput>",
        "<a>" * 5000,
        "\x00\udcff",
        "========= ",
    ],
)
def test_hostile_reports_give_no_records(text: str) -> None:
    assert parse_report(text) == []


def test_fields_and_numbers_of_records_are_capped() -> None:
    long = WRITE.replace("Invalid", "I" * 5000)
    records = parse_report(report(*[long] * 500))
    assert len(records) == 200
    assert len(records[0].text) == 300


def test_only_kernels_of_the_candidate_count() -> None:
    records = parse_report(report(WRITE, TORCH))
    assert of_kernels(records, {"scale_rows"}) == records[:1]
    assert of_kernels(records, {"other"}) == []


def judged(tool: Mode, **facts: str) -> list[Finding]:
    trial = scaled_add()
    trial.profile = Profile.STANDARD
    trial.device = CUDA
    scenario = next(s for s in Mem003().propose(trial) if s.mode is tool)
    return list(Mem003().judge(trial, scenario, run(scenario, facts)).findings)


def run(scenario: Scenario, facts: dict[str, str]) -> Ran:
    last = StepDone(index=1, facts=tuple(facts.items()))
    records = (StepDone(index=0), last)
    return Ran(ScenarioResult(records=records, termination=Finished()), ())


def test_an_invalid_access_rejects_once() -> None:
    (finding,) = judged(
        Mode.MEMCHECK, status="done", kernels="scale_rows", report=report(WRITE, WRITE, TORCH)
    )
    assert finding.finding_class is FindingClass.WRONG
    assert finding.message == (
        "memcheck: Invalid __global__ write of size 4 bytes in void scale_rows(float *, long) "
        "(kernel.cu:21)"
    )
    assert dict(finding.details)["called from"] == "launch_rows"


@pytest.mark.parametrize(
    ("tool", "text"), [(Mode.RACECHECK, TEXT), (Mode.INITCHECK, report(WRITE))]
)
def test_warnings_and_unused_reads_are_advice(tool: Mode, text: str) -> None:
    found = judged(tool, status="done", kernels="add_rows scale_rows", report=text)
    assert found[-1].finding_class is FindingClass.ADVICE


def test_a_refusal_decides_nothing() -> None:
    with pytest.raises(CannotJudgeError, match="Device not supported"):
        judged(Mode.MEMCHECK, status="the tool was refused: Device not supported")
    assert judged(Mode.MEMCHECK, status="no kernels of its own") == []


def test_it_runs_on_a_gpu_only_and_not_at_quick() -> None:
    trial = scaled_add()
    assert Mem003().needs.gpu
    trial.device = CUDA
    assert Mem003().skip(trial) == "standard and deep run it"
    trial.profile = Profile.STANDARD
    assert Mem003().skip(trial) == ""


def test_the_tool_is_found_below_cuda_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "compute-sanitizer" / "compute-sanitizer"
    tool.parent.mkdir()
    tool.touch(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert find_sanitizer() == str(tool)
    assert Mem003().missing() == ""
