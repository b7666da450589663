"""Values of options that several verbs share: what is taken, and what is refused in which words."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from cuassay.cli import options
from cuassay.cli.options import Output
from cuassay.cli.sinks import Target
from cuassay.errors import CandidateError, UsageError
from cuassay.model.device import Device
from cuassay.model.options import Options
from cuassay.model.profile import Profile


@pytest.mark.parametrize(
    ("value", "seconds"), [("90", 90), ("90s", 90), (" 30 m", 1800), ("1.5h", 5400), ("2m", 120)]
)
def test_a_time_is_seconds_minutes_or_hours(value: str, seconds: float) -> None:
    assert options.duration_s(value, option="--budget") == seconds


@pytest.mark.parametrize("value", ["", "0", "-3", "3d", "a minute", "1e3", "5 s m"])
def test_what_is_no_time_names_the_option(value: str) -> None:
    with pytest.raises(UsageError, match=r"--budget .* is no time; expected such as 90s"):
        options.duration_s(value, option="--budget")
    assert options.duration_s(None, option="--budget") is None


@pytest.mark.parametrize(
    ("value", "gib"), [("8", 8), ("8GiB", 8), ("8 gb", 8), ("512MiB", 0.5), ("256M", 0.25)]
)
def test_memory_counts_in_gib(value: str, gib: float) -> None:
    assert options.memory_gib(value, option="--memory") == gib


@pytest.mark.parametrize("value", ["255MiB", "0", "8TiB", "much", "-8"])
def test_too_little_memory_and_other_units_are_refused(value: str) -> None:
    with pytest.raises(UsageError, match=r"--memory .* expected 256MiB or more"):
        options.memory_gib(value, option="--memory")


@pytest.mark.parametrize("value", ["sm_80", "sm_100a", "sm_103f"])
def test_an_architecture_is_returned_as_it_is(value: str) -> None:
    assert options.architecture(value, option="--arch") == value


@pytest.mark.parametrize("value", ["80", "sm_9", "sm_1000", "sm_90b", "sm_90 ", "compute_90"])
def test_what_is_no_architecture_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="expected one such as sm_100"):
        options.architecture(value, option="--arch")


def test_seeds_fit_into_63_bits() -> None:
    assert [options.read_seed(value) for value in (None, 0, 2**63 - 1)] == [None, 0, 2**63 - 1]
    for value in (-1, 2**63):
        with pytest.raises(UsageError, match=f"--seed {value} is out of range"):
            options.read_seed(value)


def test_a_recorded_folder_becomes_absolute_and_has_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "launches").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    assert options.recorded_folder("launches") == str(tmp_path / "launches")
    assert options.recorded_folder("") == ""
    for absent in ("file", "elsewhere"):
        with pytest.raises(UsageError, match=f"--recorded {absent} is not a folder"):
            options.recorded_folder(absent)


def test_a_candidate_that_is_not_there_is_named_with_what_is_near(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("")
    assert options.candidate_path(str(tmp_path / "kernel.py")) == str(tmp_path / "kernel.py")
    assert options.candidate_path("hub:owner/name") == "hub:owner/name"
    with pytest.raises(CandidateError, match=r"no candidate at .*kernal\.py.*kernel\.py"):
        options.candidate_path(str(tmp_path / "kernal.py"))
    with pytest.raises(CandidateError, match="is a device or a pipe"):
        options.candidate_path("/dev/null")


@pytest.mark.parametrize(
    ("targets", "form", "other"),
    [
        ((), "terminal", ""),
        ((("json", None),), "json", ""),
        ((("sarif", None),), "sarif", "sarif"),
        ((("html", "r.html"), ("json", None)), "json", "html"),
        ((("json", "r.json"),), "terminal", "json"),
    ],
)
def test_what_stdout_gets_is_the_form_without_a_file(
    targets: tuple[tuple[str, str | None], ...], form: str, other: str
) -> None:
    made = Output(targets=tuple(Target(form=f, path=Path(p) if p else None) for f, p in targets))
    assert (made.form, made.json, made.other_form) == (form, form == "json", other)


def _judging(*arguments: str) -> Options:
    taken: list[Options] = []

    @click.command()
    @options.judging_options("standard")
    def verb(judging: Options) -> None:
        taken.append(judging)

    verb.main(list(arguments), standalone_mode=False)
    return taken[0]


def test_the_options_of_a_trial_arrive_together() -> None:
    usual = _judging()
    assert (usual.profile, usual.device, usual.seed) == (Profile.STANDARD, None, None)
    given = _judging("--profile", "quick", "--device", "cuda:1", "--seed", "7")
    assert (given.profile, given.device, given.seed) == (Profile.QUICK, Device("cuda:1"), 7)
    with pytest.raises(UsageError, match="gpu"):
        _judging("--device", "gpu")
