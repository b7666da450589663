"""Programs that use several devices: launches run at once, and what nothing orders is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsan import cli
from ptxsan.findings import Kind
from ptxsan.host.program import ProgramReport, run_program

_SOURCE = Path(__file__).parents[2] / "data" / "host" / "devices.cu"
_SYNCHRONIZES = "#ifdef THREADS\n  CHECK(cudaStreamSynchronize(stream));\n#endif\n"


def _run(
    folder: Path, devices: int, *defines: str, edit: tuple[str, str] = ("", "")
) -> ProgramReport:
    text = _SOURCE.read_text()
    assert edit[0] in text
    path = folder / "devices.cu"
    path.write_text(text.replace(*edit) if edit[0] else text)
    return run_program([path], defines=["PEERS=1", *defines], devices=devices)


def test_two_devices_meet_in_launches_that_the_host_has_not_waited_for(tmp_path: Path) -> None:
    report = _run(tmp_path, 2)
    assert (report.status, report.output) == (0, "2 devices, 0 wrong\n")
    assert not report.wrong
    assert not report.stopped
    assert len(report.launches) == 12


def test_a_thread_of_the_host_for_each_of_three_devices(tmp_path: Path) -> None:
    report = _run(tmp_path, 3, "THREADS")
    assert (report.status, report.output) == (0, "3 devices, 0 wrong\n")
    assert not report.wrong
    assert not report.stopped


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("__threadfence_system", "__threadfence", Kind.RACE),
        ("  meet(peers, rank, ranks, 2 * call + 2);\n", "", Kind.RACE),
        (_SYNCHRONIZES, "  CHECK(cudaStreamSynchronize(stream));\n", Kind.DEADLOCK),
        ("other != device && PEERS", "other > device", Kind.PEER_ACCESS),
    ],
)
def test_faults_between_devices_are_found(tmp_path: Path, old: str, new: str, kind: Kind) -> None:
    report = _run(tmp_path, 2, edit=(old, new))
    assert kind in {one.kind for one in report.wrong}


@pytest.mark.parametrize(
    "asks",
    [
        "  float first;\n  CHECK(cudaMemcpyAsync(&first, out[device], 4, cudaMemcpyDeviceToHost, "
        "stream));\n",
        "  cudaStreamQuery(stream);\n",
        "  cudaEvent_t event;\n  CHECK(cudaEventCreate(&event));\n"
        "  CHECK(cudaEventRecord(event, stream));\n  cudaEventQuery(event);\n",
    ],
)
def test_who_asks_before_all_is_launched_gets_no_verdict(tmp_path: Path, asks: str) -> None:
    report = _run(tmp_path, 2, edit=(_SYNCHRONIZES, asks))
    assert Kind.DEADLOCK not in {one.kind for one in report.wrong}
    assert any("has not issued yet" in one for one in report.stopped)


def test_a_variable_of_each_device_gives_no_verdict(tmp_path: Path) -> None:
    report = _run(
        tmp_path, 2, edit=("__global__ void fill(", "__device__ int calls;\n__global__ void fill(")
    )
    assert report.output == "2 devices, 0 wrong\n"
    counts = "__device__ int calls;\n__global__ void fill(float *data, float value) { ++calls; "
    edit = ("__global__ void fill(float *data, float value) { ", counts)
    report = _run(tmp_path, 2, edit=edit)
    assert any("of which each device has its own" in one for one in report.stopped)


def test_devices_are_for_whole_programs(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(_SOURCE), "--kernel", "fill", "--grid", "1", "--block", "1"]
    assert cli.main(["run", *arguments, "--devices", "2"]) == cli.USAGE
    assert "--devices is for a whole program" in capsys.readouterr().err
