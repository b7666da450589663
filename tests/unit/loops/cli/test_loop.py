"""`cuassay loop train`: one whole run through a worker, and mistakes that give one message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuassay.cli.main import main
from cuassay.model.jobs import TrainJob
from cuassay.model.loop import Start
from cuassay_loops.cli import drive as loop_drive
from cuassay_loops.results import Cell, CellResult, Duplicates
from cuassay_loops.train import duplicates, matrix
from cuassay_loops.train.cell import Settings
from tests.zoo import planted

_BUG = str(planted.bug("bf16_embedding_grad"))
_SMALL = ("--site", "embedding_grad", "--device", "cpu", "--vocab", "300", "--seeds", "1")


@pytest.mark.usefixtures("judge_here")
def test_a_run_is_told_in_every_form_and_goes_on_from_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    page, result = tmp_path / "run.html", tmp_path / "RESULT.md"
    call = [
        "loop",
        "train",
        _BUG,
        *_SMALL,
        "--optimizer",
        "sgd",
        "--steps",
        "9",
        "--json",
        "--seed",
        "7",
    ]
    assert main([*call, "--html", str(page), "--result", str(result)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "cuassay/train/1"
    assert found["verdict"] == "REJECTED"
    cells = {cell["data"]: cell for cell in found["cells"]}
    assert cells["real"]["gradient_left_band"]
    assert cells["real"]["parameter"] == "embed"
    assert cells["real"]["rows"]
    assert not cells["uniform"]["gradient_left_band"]
    assert page.read_text().count("<svg") == 4
    assert "REJECTED" in result.read_text()
    kept = Path(found["kept"])
    assert len(list(kept.glob("*.json"))) == 3  # two cells, and what duplicates said
    assert not found["duplicates"][0]["wrong"]
    (kept / "uniform-sgd-bf16-0-scratch.json").unlink()  # as an interruption leaves it
    assert main(call) == 1
    again = json.loads(capsys.readouterr().out)
    assert again["resumed"] == 1
    assert again["cells"][0] == cells["real"]


@pytest.mark.usefixtures("judge_here")
def test_the_switches_of_training_reach_every_cell_and_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    met: list[Settings] = []

    def run_cell(cell: Cell, settings: Settings, **more: object) -> CellResult:
        met.append(settings)
        return CellResult(cell=cell, learning_rate=0.1, steps=1)

    def probe(cell: Cell, settings: Settings) -> Duplicates:
        met.append(settings)
        return Duplicates(precision=cell.precision, start=cell.start, samples=32)

    monkeypatch.setattr(matrix, "run_cell", run_cell)
    monkeypatch.setattr(duplicates, "probe", probe)
    switches = ["--accumulate", "4", "--checkpointing", "--compile", "eager", "--json"]
    assert main(["loop", "train", _BUG, *_SMALL, *switches]) == 0
    assert len(met) == 5  # two data, two optimizers, and the batch of duplicates
    for settings in met:
        assert (settings.accumulate, settings.recompute, settings.compile_with) == (
            4,
            True,
            "eager",
        )
    found = json.loads(capsys.readouterr().out)["options"]
    assert found == {"accumulate": "4", "checkpointing": "every block", "torch.compile": "eager"}


@pytest.mark.usefixtures("judge_here")
def test_a_kernel_that_raises_is_rejected_with_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    kernel = tmp_path / "kernel.py"
    kernel.write_text(
        "def run(grad_output, input_ids, weight, scale):\n    raise ValueError('no such tile')\n"
    )
    assert (
        main(["loop", "train", str(kernel), *_SMALL, "--data", "uniform", "--optimizer", "sgd"])
        == 1
    )
    assert "no such tile" in capsys.readouterr().out


@pytest.mark.usefixtures("judge_here")
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--site", "embeding"], "unknown site 'embeding': did you mean 'embedding'"),
        (["--site", "rmsnorm"], "do not match the problem 'rmsnorm'"),
        (["--data", "reall"], "did you mean 'real'"),
        (["--optimizer", "adam"], "unknown optimizer 'adam'"),
        (["--preset", "huge"], "unknown preset 'huge'"),
        (["--accumulate", "3"], "does not divide the batch of 8 rows"),
        (["--precision", "int8"], "unknown precision 'int8'"),
        (["--problem", "swiglu"], "does not fit site 'embedding_grad'"),
        (["--vocab", "9"], "every byte is a token"),
        (["--lr", "-1"], "expected a positive number"),
        (["--result", "/nowhere/RESULT.md"], "a folder that exists"),
    ],
)
def test_mistakes_give_one_message(
    more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["loop", "train", _BUG, *_SMALL, *more]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("given", "starts"),
    [
        ((), ()),
        (("--start", "sure"), (Start.SURE,)),
        (("--start", "both"), (Start.SCRATCH, Start.TRAINED)),
    ],
)
def test_starts_are_as_asked_for(
    given: tuple[str, ...], starts: tuple[Start, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[TrainJob] = []

    def drive(job: TrainJob, shown: object) -> int:
        met.append(job)
        return 0

    monkeypatch.setattr(loop_drive, "drive", drive)
    assert main(["loop", "train", _BUG, *_SMALL, *given]) == 0
    (job,) = met
    assert job.settings.starts == starts
