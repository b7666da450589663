"""What Triton compiled apart is there in the next process apart, and nothing else is."""

from __future__ import annotations

import os
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path, PurePosixPath

import pytest
import torch

from cuassay.build import tuned
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.steps import Mode
from cuassay.model.trace import StepDone
from cuassay.sandbox.host import kept_kernels
from cuassay.sandbox.host.apart import Apart
from cuassay.sandbox.host.nursery import Nursery
from tests.support.workers import LIMITS, candidate, problem

_COUNTS = """
import os

import torch


def run(x):
    home = os.path.join(os.environ["TRITON_HOME"], ".triton", "cache")
    found = len(os.listdir(home)) if os.path.isdir(home) else 0
    os.makedirs(os.path.join(home, "key%d" % found), exist_ok=True)
    with open(os.path.join(home, "key%d" % found, "kernel.cubin"), "wb") as file:
        file.write(b"made")
    return x + found
"""


def test_a_group_of_tritons_cache_is_found_again_in_another_folder(tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    from triton.runtime.cache import FileCacheManager

    first, second, kept = tmp_path / "first", tmp_path / "second", tmp_path / "kept" / "digest"
    with triton.knobs.cache.scope():
        triton.knobs.cache.dir = str(kept_kernels.place(first))
        made = FileCacheManager("KEY")
        group = {name: made.put(text, name) for name, text in (("k.cubin", b"a"), ("k.json", b"b"))}
        made.put_group("k.json", group)
        kept_kernels.take(first, kept)
        kept_kernels.lay_out(kept, second)
        triton.knobs.cache.dir = str(kept_kernels.place(second))
        found = FileCacheManager("KEY").get_group("k.json")
    assert found is not None
    there = kept_kernels.place(second) / "KEY"
    assert found == {name: str(there / name) for name in ("k.cubin", "k.json")}
    assert (there / "k.cubin").read_bytes() == b"a"


def test_links_pipes_and_what_is_too_much_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "seed").write_text("1234")
    folder, kept = tmp_path / "folder", tmp_path / "kept" / "digest"
    cache = kept_kernels.place(folder)
    (cache / "A").mkdir(parents=True)
    (cache / "A" / "link").symlink_to(secret / "seed")
    os.mkfifo(cache / "A" / "pipe")
    (cache / "A" / "plain").write_bytes(b"plain")
    (cache / "B").symlink_to(secret)
    (cache / "A" / "deeper").mkdir()
    (cache / "A" / "deeper" / "file").write_bytes(b"deeper")
    kept_kernels.take(folder, kept)
    assert [path.name for path in kept.iterdir()] == ["A"]
    assert {p.name: p.read_bytes() for p in (kept / "A").iterdir()} == {
        "link": b"",
        "pipe": b"",
        "plain": b"plain",
    }
    monkeypatch.setattr(kept_kernels, "_MOST_BYTES", 100)
    (cache / "C").mkdir()
    (cache / "C" / "large").write_bytes(b"x" * 200)
    kept_kernels.take(folder, kept)
    assert [path.name for path in kept.parent.iterdir()] == ["digest"]
    assert [path.name for path in kept.iterdir()] == ["A"]


def test_of_what_autotuners_chose_plain_files_alone_are_laid_out(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("1234")
    made, folder = tmp_path / "made", tmp_path / "folder"
    (made / "tuned" / "deeper").mkdir(parents=True)
    folder.mkdir()
    (made / "tuned" / "plain").write_text("BLOCK: 2")
    (made / "tuned" / "long").write_text("x" * 10_000)
    (made / "tuned" / "link").symlink_to(tmp_path / "secret")
    (made / "tuned" / "deeper" / "file").write_text("deeper")
    os.mkfifo(made / "tuned" / "pipe")
    kept_kernels.lay_out_choices(made, folder)
    found = {path.name: path.read_text() for path in (folder / "tuned").iterdir()}
    assert found == {"plain": "BLOCK: 2", "long": "x" * 4096, "link": "", "pipe": ""}
    (tmp_path / "other").mkdir()
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "tuned").symlink_to(made / "tuned")
    kept_kernels.lay_out_choices(tmp_path / "away", tmp_path / "other")
    assert list((tmp_path / "other" / "tuned").iterdir()) == []


_TUNES = """
from triton.runtime.autotuner import Autotuner, Config


class Kernel:
    called = []

    @staticmethod
    def fn(x, n, BLOCK):
        pass

    def run(self, x, n, BLOCK, **_):
        self.called.append(BLOCK)


TUNER = Autotuner(
    Kernel(), ["x", "n", "BLOCK"], [Config({"BLOCK": n}) for n in (8, 2, 4)], ["n"], None, None
)


def run(x):
    TUNER.run(x, x.shape[0])
    return x + sum(set(Kernel.called))
"""


def test_where_calls_are_followed_autotuners_take_what_workers_chose(
    nursery: Nursery, tmp_path: Path
) -> None:
    pytest.importorskip("triton")
    made = candidate(_TUNES)
    place = tmp_path / PurePosixPath(made.entry_file).name
    place.write_text(made.sources[0].text)
    spec = spec_from_file_location("tunes", place)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"), ReadResult(result="r"))
    cases = tuple(Case(label=str(n), axes={"n": n}) for n in (10, 20))

    def used(choices: Path) -> list[float]:
        """Return the sum of all configurations that were called, after a call of each size."""
        found = []
        with Apart(
            made,
            problem(),
            device=CPU,
            nursery=lambda: nursery,
            limits=LIMITS,
            choices=choices,
        ) as apart:
            for case in cases:
                asked = Scenario(label="followed", cases=(case,), steps=steps, timeout_s=60.0)
                run = apart.run(asked, lambda case: {"x": torch.zeros(case.axes["n"])}, fresh=False)
                record = run.result.records[-1]
                assert isinstance(record, StepDone), record
                found.append(float(run.tensor(record.items[0])[0]))
        return found

    (tmp_path / "chose" / "tuned").mkdir(parents=True)
    (tmp_path / "chose" / "tuned" / tuned._name(module.TUNER)).write_text(
        str(module.TUNER.configs[1])
    )
    assert used(tmp_path / "chose") == [2.0, 2.0]
    # Without a choice the first call tunes, over all, and later sizes use what it chose.
    assert used(tmp_path / "none") == [14.0, 14.0]


def test_a_process_apart_finds_what_the_one_before_it_made(
    nursery: Nursery, tmp_path: Path
) -> None:
    steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"), ReadResult(result="r"))
    case = Case(label="0", axes={"n": 10})

    def found(keep: Path, mode: Mode = Mode.APART) -> float:
        asked = Scenario(label="apart", cases=(case,), steps=steps, mode=mode, timeout_s=60.0)
        with Apart(
            candidate(_COUNTS),
            problem(),
            device=CPU,
            nursery=lambda: nursery,
            limits=LIMITS,
            keep=keep,
            choices=tmp_path,
        ) as apart:
            run = apart.run(asked, lambda _: {"x": torch.zeros(10)}, fresh=True)
        record = run.result.records[-1]
        assert isinstance(record, StepDone)
        return float(run.tensor(record.items[0])[0])

    assert [found(tmp_path / "one") for _ in range(3)] == [0.0, 1.0, 2.0]
    assert found(tmp_path / "other") == 0.0
    # One that is followed may know it: what it makes is there for others that are, and for no else.
    assert [found(tmp_path / "one", Mode.PLAIN) for _ in range(2)] == [3.0, 4.0]
    assert found(tmp_path / "one") == 3.0
