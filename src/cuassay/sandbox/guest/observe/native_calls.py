"""What an extension's C++ may ask of the process and the machine: the functions that it links to.

A clock, a limit, a file: whoever asks may be right under a judge alone. The calls themselves are
not seen, but compiled code names each function of others that it calls. Looked at where an
extension is compiled with gcc's counters. What torch's headers name does not count.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from cuassay.build.cuda.host_lines import HOST_LINES

_TIMEOUT_S = 20.0
_LOOKS = {
    **dict.fromkeys(
        ("time", "clock_gettime", "gettimeofday", "_ZNSt6chrono3_V212system_clock3nowEv"),
        "a clock in C++",
    ),
    **dict.fromkeys(
        ("getrlimit", "getrlimit64", "prlimit", "prlimit64", "prctl", "sysinfo", "getrusage"),
        "its limits in C++",
    ),
    **dict.fromkeys(("getppid", "ptrace", "syscall", "dl_iterate_phdr"), "itself in C++"),
    **dict.fromkeys(("environ", "_environ", "__environ"), "variables of its process in C++"),
    **dict.fromkeys(("dlopen", "dlsym", "dlvsym"), "functions by their names in C++"),
}
_STREAMS = ("_ZNSt14basic_ifstream", "_ZNSt13basic_fstream", "_ZNSt13basic_filebuf")
_FILES = "a file in C++"


def asked() -> dict[str, str]:
    """Return the readings: what can be asked, and whether a followed library links to it."""
    found = {what for library in HOST_LINES.libraries for what in _linked(library)}
    return {f"asks {what}": "yes" if what in found else "no" for what in {*_LOOKS.values(), _FILES}}


@cache
def _linked(library: Path) -> frozenset[str]:
    """Return what the objects of a library ask, or it where they are gone.

    A library names what gcc's counters call too, and all that its copy of libstdc++ calls where a
    compiler links that as an archive: it then names no function of libstdc++ itself.
    """
    tool = shutil.which("nm")
    if tool is None:
        return frozenset()
    objects = sorted(library.parent.glob("*.o"))
    command = [tool, "--undefined-only", "--format=just-symbols", *([] if objects else ["-D"])]
    command += map(str, objects or [library])
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    names = [name.partition("@")[0] for name in done.stdout.decode(errors="replace").split()]
    files = (_FILES for name in names if name.startswith(_STREAMS))
    return frozenset((*(_LOOKS[name] for name in names if name in _LOOKS), *files))
