"""A candidate's sources on disk, and tracebacks cut down to its own frames."""

from __future__ import annotations

import runpy
import threading
import time
from pathlib import Path

import pytest

from cuassay.build.sources import (
    absent_header,
    absent_library_of_ranks,
    build_lock,
    candidate_traceback,
    clip_log,
    write_sources,
)
from cuassay.errors import BuildError
from cuassay.model.candidate import Candidate, SourceFile


def _candidate(*files: tuple[str, str]) -> Candidate:
    sources = tuple(SourceFile(path=path, text=text) for path, text in files)
    return Candidate(name="k", sources=sources, entry_file=files[0][0], entry_function="run")


def test_sources_lie_below_the_folder_and_same_ones_stay_untouched(tmp_path: Path) -> None:
    candidate = _candidate(("k.py", "x = 1\n"), ("lib/h.cuh", "int y;\n"))
    root = write_sources(candidate, tmp_path)
    assert (root / "lib" / "h.cuh").read_text() == "int y;\n"
    before = (root / "k.py").stat()
    write_sources(candidate, tmp_path)
    after = (root / "k.py").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    write_sources(_candidate(("k.py", "x = 2\n")), tmp_path)
    assert (root / "k.py").read_text() == "x = 2\n"
    assert sorted(path.name for path in root.rglob("*")) == ["h.cuh", "k.py", "lib"]  # no drafts


@pytest.mark.parametrize("path", ["/etc/passwd", "../k.py", "a/../../k.py"])
def test_a_path_that_leaves_the_folder_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="leaves the candidate's folder"):
        write_sources(_candidate(("k.py", ""), (path, "x")), tmp_path)
    assert not (tmp_path.parent / "k.py").exists()


def test_one_builder_waits_for_the_other(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with build_lock(tmp_path):
            order.append("second")

    with build_lock(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join(timeout=30)
    assert order == ["first", "second"]


def test_a_traceback_has_the_candidate_s_frames_alone(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("import json\n\ndef run():\n    json.loads('{')\n\nrun()\n")
    with pytest.raises(ValueError, match="Expecting") as failure:
        runpy.run_path(str(tmp_path / "k.py"))
    text = candidate_traceback(failure.value, tmp_path)
    assert 'File "k.py", line 4, in run' in text
    assert "json/" not in text
    assert str(tmp_path) not in text
    assert text.rstrip().splitlines()[-1].startswith("json.decoder.JSONDecodeError")


def test_of_a_long_log_the_end_is_kept() -> None:
    assert clip_log("short") == "short"
    clipped = clip_log("a" * 10 + "b" * 64_000)
    assert clipped == f"[the first 10 characters are cut]\n{'b' * 64_000}"


def test_a_header_that_a_compiler_did_not_find_is_named() -> None:
    by_gcc = "k.cu:3:10: fatal error: nvshmem.h: No such file or directory\n"
    by_nvrtc = 'k.cu(1): catastrophic error: cannot open source file "nccl_device.h"\n'
    assert absent_header(by_gcc) == "nvshmem.h"
    assert absent_header(by_nvrtc) == "nccl_device.h"
    assert absent_header("k.cu(1): error: expected a ';'") == ""
    assert "uses <nvshmem.h>, by which ranks are not judged" in absent_library_of_ranks(by_gcc)
    assert absent_library_of_ranks(by_gcc.replace("nvshmem", "my_scale")) == ""
