"""What a candidate's process may read: its interpreter, libraries and tools, and little else.

An allow-list of files and folders. The candidate's own sources and caches are added by its
process, which may write there. Everything else, home folders, keys, runs and other candidates
among it, cannot be opened.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from cuassay.home import home
from cuassay.model.device import Device
from cuassay.sandbox.environment import machine_runtime, torch_headers

_SYSTEM = (
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/nix/store", "/gnu/store",
    "/opt", "/sys", "/run/nvidia", "/run/nvidia-persistenced",
    "/run/opengl-driver",
)  # fmt: skip
_ETC = (
    "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "localtime",
    "timezone", "nsswitch.conf", "passwd", "group", "hosts", "host.conf", "os-release", "nvidia",
    "nvidia-container-runtime", "OpenCL", "locale.alias", "machine-id",
)  # fmt: skip
# Of /proc what says how the machine is; other processes are not in it.
_PROC = (
    "cpuinfo", "meminfo", "stat", "version", "filesystems", "devices", "modules", "sys", "driver",
    "loadavg", "uptime", "vmstat", "mounts", "cgroups", "interrupts", "iomem",
)  # fmt: skip
_LISTS = ("PATH", "LD_LIBRARY_PATH", "CPATH", "LIBRARY_PATH", "PYTHONPATH")
_PLACES = (
    "CUDA_HOME", "CUDA_PATH", "TRITON_LIBCUDA_PATH", "TRITON_PTXAS_PATH", "PYTHONPYCACHEPREFIX",
    "CC", "CXX", "CUDAHOSTCXX",
)  # fmt: skip


_COMPILERS = ("cc", "gcc", "c++", "g++", "clang", "clang++", "ld", "as", "nvcc", "ptxas", "ninja")


def readable(
    source: Mapping[str, str], *, device: Device, closed: Sequence[Path] = ()
) -> list[str]:
    """Return the absolute paths that exist here; `source` is the judge's environment.

    `closed` are folders that stay out of reach. One above them, or a user's home folder, gives
    what it holds one by one, but for these and for hidden files: a module in such a folder can
    still be imported.
    """
    apart = frozenset(os.path.realpath(path) for path in (home(), Path.home(), *closed))
    above = apart.union(str(folder) for path in apart for folder in Path(path).parents)
    found: dict[str, None] = {}
    for path in dict.fromkeys(_candidates(source, device)):
        # A folder above everything would allow everything, keys among it.
        if os.path.isabs(path) and os.path.realpath(path) != "/" and os.path.exists(path):
            found |= dict.fromkeys(_narrowed(path, apart, above))
    return list(found)


def _narrowed(path: str, apart: Set[str], above: Set[str]) -> Iterator[str]:
    """Yield a path; where it is one of `above`, `apart` or a folder above it, what it holds."""
    real = os.path.realpath(path)
    if real not in above:
        yield path
        return
    with contextlib.suppress(OSError):
        for entry in os.scandir(real):
            if not entry.name.startswith(".") and entry.path not in apart:
                yield from _narrowed(entry.path, apart, above)


def _candidates(source: Mapping[str, str], device: Device) -> Iterator[str]:
    yield from _SYSTEM
    yield from (f"/etc/{name}" for name in _ETC)
    yield from (f"/proc/{name}" for name in _PROC)
    yield from (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    yield os.path.dirname(os.path.realpath(sys.executable))
    yield from sysconfig.get_paths().values()
    yield from sys.path
    for name in _LISTS:
        yield from source.get(name, "").split(os.pathsep)
    for name in _PLACES:
        yield source.get(name, "")
    # A compiler reads far more than its own folder: passes, headers, start files, the linker. All
    # of them lie below its prefix, the folder above `bin`; a link to a compiler stands for its
    # target. A prefix that is a home folder, or above one, is left out.
    home = os.path.realpath(source.get("HOME") or os.path.expanduser("~"))
    search = source.get("PATH", os.defpath)
    named = (source.get(name, "").split(" ")[0] for name in ("CC", "CXX", "CUDAHOSTCXX"))
    for tool in (*named, *_COMPILERS):
        place = shutil.which(tool, path=search) if tool else None
        for binary in {place, os.path.realpath(place)} if place else ():
            folder = os.path.dirname(binary)
            yield folder
            prefix = os.path.dirname(folder)
            if os.path.basename(folder) == "bin" and not f"{home}/".startswith(f"{prefix}/"):
                yield prefix
    if device.on_gpu:
        yield from _driver_folders()
    yield from machine_runtime().values()  # what few launches need is loaded when they run
    for folder in torch_headers().values():  # what comes to lie there later may be read as well
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)
        yield folder


@functools.cache
def _driver_folders() -> tuple[str, ...]:
    """Return the folders of NVIDIA's driver libraries, as the dynamic linker knows them."""
    try:
        done = subprocess.run(
            ["ldconfig", "-p"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
            env={"PATH": "/sbin:/usr/sbin:/usr/bin:/bin"},
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    paths = [line.rpartition(" => ")[2].strip() for line in done.stdout.splitlines()]
    names = ("libcuda.so", "libnvidia-", "libnvrtc", "libcudart", "libnvcuvid")
    own = [path for path in paths if os.path.basename(path).startswith(names)]
    return tuple({os.path.dirname(os.path.realpath(path)): None for path in own})
