"""Which kernels of its own a candidate launches, counted where launches pass, and disarmed there.

Counted are Triton kernels whose functions lie in the candidate's own files, native or
interpreted, autotuned or not, raw CUDA kernels and, once asked for, what its C++ extensions
launch. Not seen are those that torch.compile makes out of a Triton kernel, and replays of CUDA
graphs.
The candidate shares this process and can undo all of it.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuassay.build.recording import now as recording_now
from cuassay.build.recording.library_launches import LibraryLaunch, lead, release
from cuassay.build.recording.library_maps import watch_maps
from cuassay.build.recording.library_ptx import record_library_launch

_ENTRIES, _TEXT, _BINARIES, _MOST_LIBRARIES = 256, 200, 8, 64
_LAUNCHERS = "triton"  # the folder of Triton's own libraries, which launch its kernels
# What launches a candidate's Triton kernels without passing here.
_ELSEWHERE = (
    *("torch.compile", "torch._inductor", "triton_op", "wrap_triton"),
    *("triton.compile", ".warmup("),
)
_PATCHED = "__cuassay_counts__"


@dataclass(slots=True)
class Ledger:
    """Launches by kernel: `asked` counts launches, `raised` those that ended in an exception.

    With `disarmed` no kernel that is counted runs. `blind` says what launches kernels unseen.
    """

    root: str = ""
    asked: dict[str, int] = field(default_factory=dict)
    raised: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    disarmed: bool = False
    blind: str = ""
    _led: set[str] = field(default_factory=set)
    _leading: list[str] | None = None  # those led since `lead_libraries`, until they are released
    _folder: str = ""
    _binaries: dict[str, bytes | Path] = field(default_factory=dict)
    _libraries: dict[str, Path] = field(default_factory=dict)
    _functions: list[weakref.ref[Any]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def define(self, name: str) -> None:
        """Note a kernel that has not been launched so far."""
        with self._lock:
            if len(self.asked) < _ENTRIES:
                self.asked.setdefault(name[:_TEXT], 0)

    def launch(self, name: str, go: Callable[[], Any]) -> Any:
        """Count one launch and do it, unless kernels are disarmed."""
        name = name[:_TEXT]
        self.define(name)
        with self._lock:
            self.asked[name] = self.asked.get(name, 0) + 1
        if self.disarmed:
            return None
        try:
            return go()
        except Exception as error:
            with self._lock:
                self.raised[name] = self.raised.get(name, 0) + 1
                self.reasons.setdefault(name, f"{type(error).__name__}: {error}"[:_TEXT])
            raise

    def binary(self, name: str, found: bytes | Path) -> None:
        """Note what a kernel, or a library of kernels, was compiled into."""
        if name in self._binaries or len(self._binaries) < _BINARIES:
            self._binaries[name] = found
        if isinstance(found, Path) and len(self._libraries) < _MOST_LIBRARIES:
            self._libraries[name] = found

    def binaries(self) -> list[bytes | Path]:
        """Return the cubins and shared libraries that the candidate was compiled into."""
        return list(self._binaries.values())

    def libraries_below(self, folder: Path) -> None:
        """Note the shared libraries below a build's folder, and those that it loads later."""
        self._folder = f"{folder}/"
        for place, below, names in os.walk(folder):
            # Another worker may be making and removing folders there, which are passed over.
            below[:] = sorted(name for name in below if name != _LAUNCHERS)
            for name in sorted(names):
                if name.endswith(".so"):
                    self.binary(name, Path(place, name))

    def follow(self, library: Path) -> None:
        """Note a library that was loaded just now, and lead it where libraries are being led."""
        self.binary(library.name, library)
        watch_maps(library)
        if self._leading is not None:
            self._leading += self._lead_new()

    def lead_libraries(self) -> list[str]:
        """Count what the candidate's loaded libraries launch from now on; return those new since.

        What a recorder keeps of them is seen here too. Those that are loaded later join them.
        """
        self._leading = self._lead_new()
        return self._leading

    def _lead_new(self) -> list[str]:
        for path in _mapped(self._folder) if self._folder else ():
            self.binary(path.name, path)
            watch_maps(path)
        new = []
        for name, library in list(self._libraries.items()):
            if name not in self._led:
                kernels = f"kernels of {name}"[:_TEXT]
                go = functools.partial(self._from_library, kernels)
                if lead(library, go):
                    self._led.add(name)
                    self.define(kernels)
                    new.append(name)
        return new

    def release_libraries(self, names: Iterable[str]) -> None:
        """Let libraries launch on their own again: that costs less."""
        self._leading = None
        for name in names:
            release(self._libraries[name])
            self._led.discard(name)

    def rearm(self) -> None:
        """Let every kernel run on its own again, as before the first was disarmed or led."""
        self.disarmed = False
        self.release_libraries(list(self._led))

    def _from_library(
        self, kernels: str, go: Callable[[], int], asked: LibraryLaunch | None
    ) -> int:
        recorder = recording_now.current
        if recorder is not None and asked is None:
            recorder.pass_over(kernels, "a launch whose arguments come packed, not in a table")
        elif recorder is not None and asked is not None:
            go = functools.partial(record_library_launch, recorder, asked, go)
        status = self.launch(kernels, go)
        return 0 if status is None else int(status)

    def functions(self) -> list[Any]:
        """Return the candidate's Triton functions that compile for a device, as far as known."""
        found = (reference() for reference in self._functions)
        return [each for each in found if hasattr(each, "device_caches")]

    def compiles(self, function: Any) -> None:
        """Note a Triton function of the candidate's."""
        if len(self._functions) < _ENTRIES:
            self._functions.append(weakref.ref(function))

    def owns(self, function: Any) -> bool:
        """Whether a Python function's code lies in the candidate's files."""
        code = getattr(function, "__code__", None)
        return bool(self.root) and str(getattr(code, "co_filename", "")).startswith(self.root)


def _mapped(folder: str) -> Iterator[Path]:
    """Yield the shared libraries below a folder that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        files = {line.split(maxsplit=5)[-1].strip() for line in maps if folder in line}
    for name in sorted(files):
        inside = name.startswith(folder) and f"/{_LAUNCHERS}/" not in name
        if inside and name.endswith(".so"):
            yield Path(name)


LEDGER = Ledger()


def count_triton(root: Path, text: str) -> None:
    """Count the launches of Triton kernels defined below `root`; before they are imported.

    `text` is all of the candidate's sources. Does nothing where Triton is not installed.
    """
    LEDGER.root = f"{root}/"
    LEDGER.blind = next((word for word in _ELSEWHERE if word in text), "")
    for module, name in (
        ("triton.runtime.jit", "JITFunction"),
        ("triton.runtime.interpreter", "InterpretedFunction"),
    ):
        try:
            kind = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        if not hasattr(kind, _PATCHED):
            _patch(kind)
            setattr(kind, _PATCHED, True)


def _patch(kind: Any) -> None:
    initialise, run = kind.__init__, kind.run

    @functools.wraps(initialise)
    def noted(self: Any, function: Any, *arguments: Any, **options: Any) -> None:
        initialise(self, function, *arguments, **options)
        if LEDGER.owns(function):
            LEDGER.define(function.__qualname__)
            LEDGER.compiles(self)

    @functools.wraps(run)
    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        if options.get("warmup") or not LEDGER.owns(self.fn):
            return run(self, *arguments, **options)
        name = self.fn.__qualname__
        compiled = LEDGER.launch(name, lambda: run(self, *arguments, **options))
        # Note the cubin of a Triton kernel that has just been launched, where there is one.
        texts: Any = getattr(compiled, "asm", None)
        found = texts.get("cubin") if texts is not None and hasattr(texts, "get") else None
        if isinstance(found, bytes):
            LEDGER.binary(name, found)
        return compiled

    kind.__init__, kind.run = noted, counted
