"""CPU lanes: candidates that a compiler takes long for are built before a GPU lane takes them.

A build of CUDA C++ takes up to a minute of the CPU and nothing of the GPU. Tasks that need one
reach the lanes when it is done, well or not; the others go first.
"""

from __future__ import annotations

import contextlib
import queue
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from cuassay.engine import run
from cuassay.errors import CuassayError
from cuassay.model.jobs import BuildJob, TrialJob

_LARGEST_BYTES = 8 * 2**20
_COMPILED = re.compile(rb"PYBIND11_MODULE|load_inline|cpp_extension|__global__")


def needs_build(files: Iterable[Path]) -> bool:
    """Whether the files of a candidate hold code for a compiler of CUDA C++."""
    for path in files:
        with contextlib.suppress(OSError):
            if not path.is_file():
                continue  # a pipe or a device has no end
            if path.stat().st_size <= _LARGEST_BYTES and _COMPILED.search(path.read_bytes()):
                return True
    return False


class Builders:
    """Builds jobs on threads of their own and says of each when it is done.

    `environment` is that of a GPU lane: the compiler asks it for the architecture.
    """

    def __init__(
        self,
        jobs: Mapping[str, TrialJob],
        *,
        count: int,
        environment: Mapping[str, str],
        timeout_s: float | None,
        done: Callable[[str], None],
    ) -> None:
        self._environment, self._timeout_s, self._done = environment, timeout_s, done
        self._left: queue.SimpleQueue[tuple[str, TrialJob]] = queue.SimpleQueue()
        for item in jobs.items():
            self._left.put(item)
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, daemon=True) for _ in range(min(count, len(jobs)))
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self) -> None:
        for name, job in self._items():
            alone = BuildJob(
                problem=job.problem,
                candidate=job.candidate,
                device=job.device,
                strict=job.strict,
                hide=job.hide,
            )
            try:
                with contextlib.suppress(CuassayError, OSError):  # its trial says what is wrong
                    run.document(
                        alone,
                        lambda text: None,
                        environment=self._environment,
                        timeout_s=self._timeout_s,
                    )
            finally:
                self._done(name)  # whatever happened: a lane waits for it

    def _items(self) -> Iterator[tuple[str, TrialJob]]:
        with contextlib.suppress(queue.Empty):
            while not self._closed:
                yield self._left.get_nowait()

    def close(self) -> None:
        """Start no further build."""
        self._closed = True
