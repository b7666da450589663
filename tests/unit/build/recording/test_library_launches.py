"""Launches of one library are counted and switched off; those of its neighbour are not."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from cuassay.build.recording import ledger as launch_ledger
from cuassay.build.recording import now as recording_now
from cuassay.build.recording.gpu_memory import TorchMemory
from cuassay.build.recording.ledger import Ledger
from cuassay.build.recording.library_launches import LibraryLaunch, Names, lead, release
from cuassay.build.recording.recorder import LaunchRecorder, Wish
from cuassay.model.steps import Disarm
from cuassay.sandbox.guest.interface import Around
from cuassay.sandbox.guest.observe import launches

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
# A stand-in for the CUDA runtime: it writes down what it was asked to launch.
RUNTIME = """
#include <cstddef>
struct dim3 { unsigned x, y, z; };
extern "C" {
long long seen[12];
int cudaLaunchKernel(const void* f, dim3 g, dim3 b, void** a, size_t s, void* stream) {
    long long now[] = {(long long)f, g.x, g.y, g.z, b.x, b.y, b.z, (long long)a, (long long)s,
                       (long long)stream};
    for (int i = 0; i < 10; ++i) seen[i] = now[i];
    ++seen[11];
    return 7;
}
int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned s, void* stream, void** p, void** extra) {
    long long now[] = {(long long)f, gx, gy, gz, bx, by, bz, (long long)p, s, (long long)stream};
    for (int i = 0; i < 10; ++i) seen[i] = now[i];
    ++seen[11];
    return 9;
}
struct Attribute { unsigned id, padding; unsigned value[16]; };
struct Config { dim3 g, b; size_t s; void* stream; Attribute* attributes; unsigned count; };
int cudaLaunchKernelExC(const Config* c, const void* f, void** a) {
    return cudaLaunchKernel(f, c->g, c->b, a, c->s, c->stream) + 4;
}
struct DriverConfig {
    unsigned g[3], b[3], s; void* stream; Attribute* attributes; unsigned count;
};
int cuLaunchKernelEx(const DriverConfig* c, void* f, void** p, void** extra) {
    return cuLaunchKernel(f, c->g[0], c->g[1], c->g[2], c->b[0], c->b[1], c->b[2], c->s, c->stream,
                          p, extra) + 4;
}
}
"""
USER = """
#include <cstddef>
struct dim3 { unsigned x, y, z; };
extern "C" {
int cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, void*);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void*, void**, void**);
struct Attribute { unsigned id, padding; unsigned value[16]; };
struct Config { dim3 g, b; size_t s; void* stream; Attribute* attributes; unsigned count; };
struct DriverConfig {
    unsigned g[3], b[3], s; void* stream; Attribute* attributes; unsigned count;
};
int cudaLaunchKernelExC(const Config*, const void*, void**);
int cuLaunchKernelEx(const DriverConfig*, void*, void**, void**);
int by_runtime_config() {
    Attribute attributes[] = {{6, 0, {1}}, {4, 0, {2, 1, 1}}};
    Config config = {{2, 3, 4}, {5, 6, 7}, 9, (void*)10, attributes, 2};
    return cudaLaunchKernelExC(&config, (void*)1, (void**)8);
}
int by_driver_config() {
    Attribute attributes[] = {{4, 0, {2, 1, 1}}};
    DriverConfig config = {{2, 3, 4}, {5, 6, 7}, 9, (void*)10, attributes, 1};
    return cuLaunchKernelEx(&config, (void*)1, (void**)8, nullptr);
}
int packed() {
    return cuLaunchKernel((void*)1, 2, 3, 4, 5, 6, 7, 9, (void*)10, nullptr, (void**)8);
}
int by_runtime() {
    return cudaLaunchKernel((void*)1, {2, 3, 4}, {5, 6, 7}, (void**)8, 9, (void*)10);
}
int by_driver() {
    return cuLaunchKernel((void*)1, 2, 3, 4, 5, 6, 7, 9, (void*)10, (void**)8, nullptr);
}
}
"""


def compiled(folder: Path, name: str, text: str, *more: str) -> Path:
    source, library = folder / f"{name}.cpp", folder / f"lib{name}.so"
    source.write_text(text)
    command = ["g++", "-shared", "-fPIC", str(source), "-o", str(library), *more]
    subprocess.run(command, check=True, capture_output=True)
    return library


@pytest.fixture(params=["lazy", "now"])
def libraries(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, ctypes.CDLL, Path]:
    """Return a user's library, the runtime, and another user of it."""
    name = f"runtime{uuid.uuid4().hex}"  # the loader takes a library of the same name for loaded
    compiled(tmp_path, name, RUNTIME)
    how = ("-L", str(tmp_path), f"-l{name}", f"-Wl,-rpath,{tmp_path},-z,{request.param},-z,relro")
    user, other = (compiled(tmp_path, each, USER, *how) for each in ("user", "other"))
    return user, ctypes.CDLL(str(tmp_path / f"lib{name}.so")), other


def seen(runtime: ctypes.CDLL) -> list[int]:
    return list((ctypes.c_longlong * 12).in_dll(runtime, "seen"))


@pytest.mark.parametrize(
    ("function", "status", "names", "cluster"),
    [
        ("by_runtime", 7, Names.STUB, (1, 1, 1)),
        ("by_driver", 9, Names.FUNCTION, (1, 1, 1)),
        ("by_runtime_config", 11, Names.STUB, (2, 1, 1)),
        ("by_driver_config", 13, Names.FUNCTION, (2, 1, 1)),
    ],
)
def test_launches_pass_with_every_argument(
    libraries: tuple[Path, ctypes.CDLL, Path],
    function: str,
    status: int,
    names: Names,
    cluster: tuple[int, int, int],
) -> None:
    user, runtime, _ = libraries
    call: Callable[[], int] = getattr(ctypes.CDLL(str(user)), function)
    asked: list[LibraryLaunch | None] = []

    def through(go: Callable[[], int], launch: LibraryLaunch | None) -> int:
        asked.append(launch)
        return go()

    assert lead(user, through) == 4
    assert call() == status
    assert asked == [
        LibraryLaunch(
            library=user,
            function=1,
            names=names,
            grid=(2, 3, 4),
            block=(5, 6, 7),
            shared_bytes=9,
            parameters=8,
            cluster=cluster,
        )
    ]
    assert seen(runtime)[:10] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_a_launch_with_packed_arguments_is_counted_as_left_out(
    libraries: tuple[Path, ctypes.CDLL, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    user, _, _ = libraries
    ledger, recorder = Ledger(), LaunchRecorder(Wish(), TorchMemory())
    ledger.libraries_below(user.parent)
    monkeypatch.setattr(recording_now, "current", recorder)
    mine = ctypes.CDLL(str(user))
    led = ledger.lead_libraries()
    try:
        assert mine.packed() == 9
    finally:
        ledger.release_libraries(led)
    recording = recorder.recording()
    assert recording.left_out == 1
    assert "come packed" in recording.notes[0]


def test_launches_that_are_held_back_reach_nobody_and_others_go_on(
    libraries: tuple[Path, ctypes.CDLL, Path],
) -> None:
    user, runtime, other = libraries
    mine, yours = ctypes.CDLL(str(user)), ctypes.CDLL(str(other))
    lead(user, lambda go, launch: 0)
    before = seen(runtime)[11]
    assert mine.by_runtime() == 0
    assert seen(runtime)[11] == before
    assert yours.by_runtime() == 7
    assert seen(runtime)[11] == before + 1


def test_a_library_that_is_released_launches_on_its_own(
    libraries: tuple[Path, ctypes.CDLL, Path],
) -> None:
    user, runtime, _ = libraries
    mine = ctypes.CDLL(str(user))
    lead(user, lambda go, launch: 0)
    release(user)
    before = seen(runtime)[11]
    assert mine.by_runtime() == 7
    assert seen(runtime)[11] == before + 1


def test_what_launches_nothing_or_is_not_loaded_has_no_slots(
    tmp_path: Path, libraries: tuple[Path, ctypes.CDLL, Path]
) -> None:
    quiet = compiled(tmp_path, "quiet", 'extern "C" int one() { return 1; }')
    assert lead(quiet, lambda go, launch: 0) == 0
    ctypes.CDLL(str(quiet))
    assert lead(quiet, lambda go, launch: 0) == 0
    assert lead(tmp_path / "absent.so", lambda go, launch: 0) == 0
    (tmp_path / "text.so").write_text("no library")
    assert lead(tmp_path / "text.so", lambda go, launch: 0) == 0


def test_the_steps_count_and_switch_off_a_library_s_launches(
    libraries: tuple[Path, ctypes.CDLL, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    user, runtime, _ = libraries
    ledger = Ledger()
    monkeypatch.setattr(launch_ledger, "LEDGER", ledger)
    monkeypatch.setattr(launches, "LEDGER", ledger)
    library = ctypes.CDLL(str(user))
    ledger.binary(user.name, user)

    def launched() -> dict[str, str]:
        return dict(launches.read(Around()).facts)

    launches.disarm(Around(), Disarm(active=False))
    assert launched() == {f"launched kernels of {user.name}": "0"}
    assert library.by_runtime() == 7
    launches.disarm(Around(), Disarm())
    before = seen(runtime)[11]
    assert library.by_runtime() == 0
    assert seen(runtime)[11] == before
    launches.disarm(Around(), Disarm(active=False))
    assert library.by_runtime() == 7
    assert launched() == {f"launched kernels of {user.name}": "3"}
    launches.disarm(Around(), Disarm())
    launches.rearm()
    before = seen(runtime)[11]
    assert library.by_runtime() == 7
    assert seen(runtime)[11] == before + 1
    assert launched() == {f"launched kernels of {user.name}": "3"}
