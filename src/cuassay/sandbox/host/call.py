"""One general call: a function of cuassay on bytes, in a confined process of its own.

For work on what a candidate made, its recorded launches say: the function is ours and trusted,
the bytes are not. Nothing of a candidate is loaded into the process.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cuassay.closing import Closing
from cuassay.errors import CannotJudgeError
from cuassay.home import cache_dir
from cuassay.sandbox.host.handle import Gone, GoneError, WorkerHandle
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.host.waits import run_now
from cuassay.sandbox.limits import GIB, Limits

_CHUNK = 1 << 30
_ANSWER_BYTES = 4 * GIB


class Caller(Closing):
    """Calls functions, one after another, in one process that is started with the first call.

    `name` is that of its folder among the build caches: what functions keep there is found again
    under the same name. Closing it ends the process.
    """

    def __init__(self, nursery: Nursery, *, name: str, limits: Limits | None = None) -> None:
        self._nursery, self._limits = nursery, limits or Limits()
        self._folder: Path = cache_dir() / name
        self._worker: WorkerHandle | None = None

    async def ask(self, function: str, buffers: Sequence[memoryview], *, timeout_s: float) -> bytes:
        """Return what `function`, `module:name`, returns for `buffers`: bytes for bytes.

        Raises CannotJudgeError where the process ends without an answer, or the function raises.
        """
        if self._worker is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            await self._nursery.wait_ready()
            self._worker = WorkerHandle(self._nursery, cache=self._folder, limits=self._limits)
        try:
            given = os.memfd_create("buffers", os.MFD_CLOEXEC)
            try:
                for buffer in buffers:
                    left = buffer.cast("B") if buffer.nbytes else buffer
                    while left.nbytes:
                        left = left[os.write(given, left[:_CHUNK]) :]
                sizes = [buffer.nbytes for buffer in buffers]
                asked = {"do": "call", "function": function, "sizes": sizes}
                reply = await self._worker.ask(asked, (given,), limit_s=timeout_s)
            finally:
                os.close(given)
            if "raised" in reply:
                raise CannotJudgeError(f"{function} failed: {reply['raised']}"[:300])
            size = reply.get("size")
            if type(size) is not int or not 0 <= size <= _ANSWER_BYTES:
                raise GoneError(Gone.GARBLED, "an answer without a plausible size")
            room = os.memfd_create("answer", os.MFD_CLOEXEC)
            try:
                os.ftruncate(room, size)
                await self._worker.ask({"do": "hand over"}, (room,), limit_s=timeout_s)
                answer = bytearray()
                while len(answer) < size:
                    part = os.pread(room, min(size - len(answer), _CHUNK), len(answer))
                    if not part:
                        raise GoneError(Gone.GARBLED, "it cut its answer off")
                    answer += part
                return bytes(answer)
            finally:
                os.close(room)
        except GoneError as gone:
            why = f"no end within {timeout_s:g} s" if gone.kind is Gone.TIMEOUT else str(gone)
            said = " ".join(self._worker.take_output().split())[-300:]
            await self._end()
            raise CannotJudgeError(f"{function} gave no answer: {why} {said}".strip()) from None

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            run_now(self._end())

    async def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.end()
            worker.close()
