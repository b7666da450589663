"""What counts as a question of a candidate about its own process: its own code's alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuassay.sandbox.guest.observe import own_process

_RUN = """
import sys
from cuassay.sandbox.guest.observe import own_process
own_process.watch({root!r})
before = own_process.asked()
sys.path[:0] = [{root!r}, {beside!r}]
try:
    import candidate
except PermissionError:
    pass
after = own_process.asked()
print([name for name in after if after[name] != before[name]])
"""


def asked(tmp_path: Path, text: str) -> str:
    """Return what a candidate of this text was seen to ask; `helper` is not its own."""
    root, beside = tmp_path / "src", tmp_path / "beside"
    for folder in (root, beside):
        folder.mkdir()
    (root / "candidate.py").write_text(text)
    (beside / "helper.py").write_text(
        "def ask(path='/proc/self/maps'):\n    return open(path).read()\n"
        "def call(f):\n    return f()\n"
    )
    program = _RUN.format(root=str(root), beside=str(beside))
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ended.stdout.strip()


@pytest.mark.parametrize(
    "text",
    [
        "open('/proc/self/status').read()",
        "open(b'/proc/self/status').read()",
        "import pathlib; pathlib.Path('/proc/self/status').read_text()",
        "import os; os.close(os.open('/proc/thread-self/status', os.O_RDONLY))",
        "import os; open(f'/proc/{os.getpid()}/status').read()",
        "import os; os.chdir('/proc/self'); open('status').read()",
        "exec(\"open('/proc/self/status').read()\")",
        "import os; os.symlink('/proc/self/status', 'x%d' % os.getpid()); "
        "n = 'x%d' % os.getpid(); open(n).read(); os.unlink(n)",
        "import threading; t = threading.Thread(target=lambda: open('/proc/self/status').read()); "
        "t.start(); t.join()",
        "import helper; helper.call(lambda: open('/proc/self/status').read())",
    ],
)
def test_its_own_code_is_seen_however_it_opens(tmp_path: Path, text: str) -> None:
    assert asked(tmp_path, text) == "['asks /proc/self/status']"


def test_a_socket_and_other_files_are_seen(tmp_path: Path) -> None:
    text = "import os, socket\nsocket.socket().close()\nos.listdir('/proc/self/fd')\n"
    text += "open('/proc/self/oom_score').read()"
    found = asked(tmp_path, text)
    assert found == "['asks /proc/self/fd', 'asks /proc/self, others', 'asks a socket']"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("import sys; sys._getframe(1).f_code", "the frames of its callers"),
        ("import inspect; inspect.stack()", "the frames of its callers"),
        (
            "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    error.__traceback__.tb_frame",
            "the frames of its callers",
        ),
        ("import gc; gc.get_objects()", "the objects that it holds"),
        ("import ctypes; ctypes.CDLL(None).getpid()", "the C library through ctypes"),
        ("import ctypes; ctypes.CDLL('libc.so.6').getpid()", "the C library through ctypes"),
        ("import ctypes; ctypes.pythonapi.getppid()", "the C library through ctypes"),
        ("import resource", "the module resource"),
    ],
)
def test_what_would_raise_no_event_afterwards_counts_at_once(
    tmp_path: Path, text: str, what: str
) -> None:
    assert asked(tmp_path, text) == f"['asks {what}']"


@pytest.mark.parametrize(
    "text",
    [
        "open('/proc/cpuinfo').read(); open('/proc/meminfo').read()",
        "open(__file__).read()",
        "import helper; helper.ask()",
        "import torch; torch.get_num_threads(); torch.rand(8).sum()",
        "import os, multiprocessing; multiprocessing.cpu_count(); os.sched_getaffinity(0)",
        "import numpy, ctypes; ctypes.pythonapi.PyGILState_Ensure",
        "import ctypes; import _ctypes; ctypes.CDLL(_ctypes.__file__)",
        "import collections, logging, warnings; collections.namedtuple('A', 'b'); "
        "logging.getLogger('a').info('b'); warnings.warn('c')",
        "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.format_exc()",
        "import gc; gc.collect()",
        "import helper, sys; helper.call(lambda: 1)",
    ],
)
def test_what_libraries_read_and_what_says_nothing_of_the_process_do_not_count(
    tmp_path: Path, text: str
) -> None:
    assert asked(tmp_path, text) == "[]"


def test_a_frame_that_is_read_costs_no_look_at_the_callers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A trace of Python's calls reads one at each call: an import of a compiler took ten times."""
    monkeypatch.setattr(own_process, "_way", lambda: pytest.fail("it looked at the callers"))
    seen: set[str] = set()
    monkeypatch.setattr(own_process, "_asked", seen)
    monkeypatch.setattr(own_process, "_is_own", lambda file: True)
    own_process._note("object.__getattr__", (None, "f_code"))
    assert seen == {own_process._CALLERS}
