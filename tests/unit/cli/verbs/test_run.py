"""`cuassay run` on recordings: hostile files, options that do not go together, exit codes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from cuassay.cli.main import main
from cuassay.engine import run as engine
from cuassay.errors import UsageError
from cuassay.judge import execute
from cuassay.model import recording, serial
from cuassay.model.machine import Agreement, LaunchEvidence, MachineEvidence

LAUNCH = LaunchEvidence(
    kernel="k",
    grid=(2, 1, 1),
    block=(32, 1, 1),
    target="sm_90a",
    agreement=(
        Agreement(allocation="y", nbytes=1200, equal=1200),
        Agreement(
            allocation="z\x1b[31m", nbytes=64, equal=60, offset=8, dtype="bfloat16",
            largest=0.0078125, scale=3.5,
        ),
    ),
)  # fmt: skip
EVIDENCE = MachineEvidence(
    launches=(LAUNCH,), device="NVIDIA H200 (sm_90)", notes=("1 launch of 'j': why\x1b",)
)


def _answer(monkeypatch: pytest.MonkeyPatch, evidence: MachineEvidence) -> list[Any]:
    jobs = []

    def document(job: Any, progress: Any) -> dict[str, Any]:
        jobs.append(job)
        return {
            "candidate": "k", "axes": {}, "sources": {}, "evidence": serial.to_json(evidence)
        }  # fmt: skip

    monkeypatch.setattr(engine, "document", document)
    return jobs


def test_agreement_with_the_gpu_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answer(monkeypatch, EVIDENCE)
    (tmp_path / "a.safetensors").touch()
    assert main(["run", str(tmp_path / "a.safetensors")]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "not recorded: 1 launch of 'j': why" in text
    assert (
        "the machine agrees with NVIDIA H200 (sm_90) in 1,260 of 1,264 bytes that were written"
        in text
    )
    assert "4 of 64 bytes differ, first byte 8; by 0.00781 at most, values reach 3.5" in text
    assert "y: " not in text


def test_a_launch_that_changed_nothing_agrees_in_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    same = dataclasses.replace(LAUNCH, agreement=())
    _answer(monkeypatch, MachineEvidence(launches=(same,), device="GPU"))
    (tmp_path / "a.safetensors").touch()
    assert main(["run", str(tmp_path / "a.safetensors")]) == 0
    text = capsys.readouterr().out
    assert "neither the machine nor GPU changed any memory: what the launch writes was" in text
    assert "agrees with" not in text


def test_a_launch_of_a_call_that_was_not_recorded_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = _answer(monkeypatch, EVIDENCE)
    (tmp_path / "k.cu").write_text("//")
    words = ["run", str(tmp_path / "k.cu"), "--problem", "p", "--json"]
    assert main(words) == 3
    assert main([*words, "--device", "cuda:0"]) == 3
    assert [job.device for job in jobs] == ["cpu", "cuda:0"]


def test_what_the_gpu_reported_of_a_launch_stands_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = LaunchEvidence(
        kernel="k", grid=(1,), block=(1,), target="sm_90", failure="CUDA error: misaligned"
    )
    _answer(monkeypatch, MachineEvidence(launches=(failed,), device="GPU"))
    (tmp_path / "a.safetensors").touch()
    main(["run", str(tmp_path / "a.safetensors")])
    text = capsys.readouterr().out
    assert "GPU reported: CUDA error: misaligned" in text
    assert "agrees" not in text


@pytest.mark.parametrize(
    "words", [["--problem", "p"], ["--axes", "n=4"], ["--record", "b"], ["--device", "cuda"]]
)
def test_how_launches_come_about_is_no_question_for_a_recording(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.safetensors").touch()
    assert main(["run", str(tmp_path / "a.safetensors"), *words]) == 2
    assert "holds launches that were recorded" in capsys.readouterr().err


def test_a_file_is_looked_at_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.safetensors"
    file.write_bytes(bytes(100))
    monkeypatch.setattr(recording, "LIMIT_BYTES", 99)
    with pytest.raises(UsageError, match="has 100 bytes, and a recording of launches 99 at most"):
        execute._read(file)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        execute._read(tmp_path / "b.safetensors")
    with pytest.raises(UsageError, match="cannot be written: Is a directory; name another file"):
        execute._write(tmp_path, b"")


def test_the_document_says_all_of_it() -> None:
    text = serial.dumps(EVIDENCE)
    assert serial.loads(MachineEvidence, json.dumps(json.loads(text))) == EVIDENCE
