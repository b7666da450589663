"""A link in a candidate's folder leads to nothing outside of it, on old kernels too."""

from __future__ import annotations

import ctypes
import errno
import json
import os
from pathlib import Path

import pytest

from cuassay import beneath
from cuassay.audit.walk import Folder
from cuassay.beneath import LeavesError, is_beneath, open_beneath
from cuassay.catalog import registry
from cuassay.errors import CandidateError
from cuassay.formats import hub, load_candidate
from cuassay.model.problem import Problem

_SECRET = "a token of 20 letters"


@pytest.fixture(params=["openat2", "walk"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder beside a secret, once as on a kernel without openat2."""
    if request.param == "walk":
        monkeypatch.setattr(beneath, "_OPENAT2", -1)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "token.txt").write_text(_SECRET)
    made = tmp_path / "kernel"
    (made / "sub").mkdir(parents=True)
    (made / "kernel.py").write_text("def run(x, y):\n    return x\n")
    (made / "sub" / "inside.h").write_text("// inside\n")
    return made


@pytest.fixture(scope="module")
def problem() -> Problem:
    return registry.get("swiglu")


_OUT = {
    "relative": "../outside/token.txt",
    "absolute": "{outside}/token.txt",
    "over-a-folder": "sub/../../outside/token.txt",
    "by-proc": "/proc/self/environ",
    "by-descriptor": "/proc/self/fd/0",
}


@pytest.mark.parametrize("target", _OUT.values(), ids=_OUT)
@pytest.mark.parametrize("name", ["notes.h", "config.h", "sub/deep.cuh", "aux.py"])
def test_a_link_out_of_the_folder_is_refused(
    folder: Path, problem: Problem, target: str, name: str
) -> None:
    if name.startswith("sub/") and not target.startswith(("/", "{")):
        target = f"../{target}"
    (folder / name).symlink_to(target.format(outside=folder.parent / "outside"))
    with pytest.raises(LeavesError):
        open_beneath(folder, name)
    assert not is_beneath(folder, folder / name)
    if target != "/proc/self/fd/0":  # no regular file: it is passed over
        with pytest.raises(CandidateError, match=r"leads out of the candidate's folder") as error:
            load_candidate(str(folder), problem)
        assert _SECRET not in str(error.value)


def test_an_entry_that_is_a_link_out_is_refused(folder: Path, problem: Problem) -> None:
    (folder / "kernel.py").unlink()
    (folder / "kernel.py").symlink_to("../outside/token.txt")
    with pytest.raises(CandidateError, match="leads out"):
        load_candidate(str(folder), problem)


def test_a_linked_folder_on_the_way_is_refused(folder: Path) -> None:
    (folder / "include").symlink_to("../outside")
    with pytest.raises(LeavesError):
        open_beneath(folder, "include/token.txt")
    with pytest.raises(LeavesError):
        open_beneath(folder, "sub/../../outside/token.txt")
    with pytest.raises(LeavesError):
        open_beneath(folder, str(folder.parent / "outside" / "token.txt"))


def test_a_source_that_a_solution_names_is_not_read_through_a_link(
    folder: Path, problem: Problem
) -> None:
    (folder / "lib").symlink_to("../outside")
    document = {
        "name": "one",
        "author": "somebody",
        "definition": problem.name,
        "spec": {
            "languages": ["pytorch"],
            "target_hardware": ["LOCAL"],
            "entry_point": "kernel.py::run",
        },
        "sources": [{"path": "kernel.py"}, {"path": "lib/token.txt"}],
    }
    (folder / "solution.json").write_text(json.dumps(document))
    with pytest.raises(CandidateError) as error:
        load_candidate(str(folder), problem)
    assert "leads out" in str(error.value)
    assert _SECRET not in str(error.value)


def test_a_declaration_is_not_read_through_a_link(folder: Path, problem: Problem) -> None:
    (folder / "one.cu").write_text('extern "C" __global__ void one(float* x) {}\n')
    (folder / "one.launch.json").symlink_to("../outside/token.txt")
    with pytest.raises(CandidateError, match="leads out") as error:
        load_candidate(str(folder / "one.cu"), problem)
    assert _SECRET[:10] not in str(error.value)


def test_links_inside_of_the_folder_are_followed(folder: Path, problem: Problem) -> None:
    (folder / "twin.h").symlink_to("sub/inside.h")
    (folder / "sub" / "up.h").symlink_to("../twin.h")
    found = {one.path: one.text for one in load_candidate(str(folder), problem).sources}
    assert found["twin.h"] == found["sub/up.h"] == "// inside\n"


def test_a_link_to_itself_and_a_folder_are_errors_of_the_system(folder: Path) -> None:
    (folder / "loop.h").symlink_to("loop.h")
    with pytest.raises(OSError, match="link"):
        open_beneath(folder, "loop.h")
    with pytest.raises(FileNotFoundError):
        open_beneath(folder, "missing.h")


def test_a_pipe_does_not_stop_the_loader(folder: Path, problem: Problem) -> None:
    os.mkfifo(folder / "pipe.h")
    assert [one.path for one in load_candidate(str(folder), problem).sources] == [
        "kernel.py",
        "sub/inside.h",
    ]
    assert not is_beneath(folder, folder / "pipe.h")


def test_a_folder_that_is_itself_a_link_is_the_users_choice(folder: Path, problem: Problem) -> None:
    chosen = folder.parent / "chosen"
    chosen.symlink_to(folder)
    assert load_candidate(str(chosen), problem).sources[0].path == "kernel.py"


def test_the_hubs_cache_links_to_its_blobs_and_nowhere_else(folder: Path) -> None:
    tree = folder / "snapshots" / "abc"
    (folder / "blobs").mkdir()
    tree.mkdir(parents=True)
    (folder / "blobs" / "1").write_text("def run(): pass\n")
    (tree / "a.py").symlink_to("../../blobs/1")
    (tree / "b.py").symlink_to("../../../outside/token.txt")
    root = hub._root(tree)
    assert hub._text(tree / "a.py", root).startswith("def run")
    with pytest.raises(CandidateError, match="leads out"):
        hub._text(tree / "b.py", root)
    with pytest.raises(CandidateError, match="leads out"):
        hub._sha256(tree / "b.py", root)


def test_a_kernel_that_refuses_the_call_is_one_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("text")

    class Refusing:
        def syscall(self, *arguments: object) -> int:
            ctypes.set_errno(errno.EPERM)  # as filters of containers answer
            return -1

    monkeypatch.setattr(beneath, "_libc", Refusing())
    with os.fdopen(open_beneath(tmp_path, "file")) as file:
        assert file.read() == "text"


def test_an_audit_takes_no_file_through_a_link(folder: Path) -> None:
    from cuassay.audit.candidates import candidates_in

    (folder / "notes.h").symlink_to("../outside/token.txt")
    files = {path.name: path for path in folder.iterdir() if path.is_file()}
    place = Folder(path=folder, names=("kernel",), files=files)
    (found,) = candidates_in([place], problem_folders=(), problem_files=(), oddities=[])
    assert {path.name for path in found.files} == {"kernel.py", "inside.h"}
