"""What workers are told to build, and what they say of it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuassay.model import serial
from cuassay.model.candidate import Candidate, Language
from cuassay.model.problem import Problem, Reference
from cuassay.model.trace import BuildFailed, ToolMissing
from cuassay.sandbox.host.handle import Gone, GoneError, UnbornError, WorkerHandle
from cuassay.sandbox.host.nursery import NurseryError
from cuassay.sandbox.host.own_lines import own_lines
from cuassay.sandbox.limits import Limits


class NotBuiltError(Exception):
    """No worker builds the candidate; `termination` says why.

    `zygote_ended`: it ended the process that its worker was forked from.
    """

    def __init__(
        self, termination: BuildFailed | ToolMissing, *, zygote_ended: bool = False
    ) -> None:
        self.termination, self.zygote_ended = termination, zygote_ended
        super().__init__(termination.what)


class Builds:
    """The build of one candidate, which each worker does for itself from the cache in `folder`.

    `seconds` and `cached` are those of the first one that succeeded, `walls` those of the first one
    that answered, `context_s` the time that the driver took to make a context for it. What the last
    one says is untrusted: the `kind` that it built, `because` of what Triton's interpreter makes
    the numbers, whether it `tunes`, whether what it imports `imports_compiler`. `failed` ends all
    attempts.
    """

    def __init__(
        self, candidate: Candidate, problem: Problem, *, builder: str, folder: Path, limits: Limits
    ) -> None:
        self._candidate, self._limits = candidate, limits
        redacted = dataclasses.replace(
            problem,
            reference=Reference(path=Path()),
            workloads=(),
            path=None,
            description="",
            growth_target={},
        )
        self.recipe: dict[str, Any] = {
            "do": "build",
            "candidate": serial.to_json(candidate),
            "problem": serial.to_json(redacted),
            "folder": str(folder),
            "builder": builder,
            "result_bytes": limits.results_bytes,
        }
        self.done = False  # a worker has built it
        self.seconds, self.cached = 0.0, False
        self.kind, self.because = "", ""
        self.tunes, self.imports_compiler = False, False
        self.failed: BuildFailed | ToolMissing | None = None
        self.log = ""
        self.walls: Mapping[str, str] = {}
        self.context_s = 0.0

    @property
    def compiles(self) -> bool:
        """Whether a build may take long because compilers run: no hang, then, of the candidate."""
        sources = self._candidate.sources
        inline = any("cpp_extension" in source.text for source in sources)
        return inline or self._candidate.language is not Language.PYTHON

    def post(self, worker: WorkerHandle) -> None:
        """Tell a worker to build; it is waited for when it is needed."""
        with contextlib.suppress(GoneError):  # seen again, and reported, when it is waited for
            worker.build_nonce = worker.post(self.recipe)

    async def wait(self, worker: WorkerHandle) -> None:
        """Wait until a worker has built. Raises NotBuiltError, and UnbornError where none began.

        A second attempt may succeed only where an earlier one did.
        """
        failure: BuildFailed | ToolMissing | None
        zygote_ended = False
        try:
            nonce = worker.build_nonce or worker.post(self.recipe)
            reply = await worker.wait(nonce, self._limits.build_s)
        except GoneError as error:
            failure = await self._died(worker, error)
        except UnbornError:
            raise
        except NurseryError as error:
            zygote_ended = True
            failure = BuildFailed(what="the candidate ended its parent process", log=str(error))
        else:
            self.walls = self.walls or worker.walls
            self.context_s = self.context_s or worker.context_s
            failure = self._read(reply)
        if failure is not None:
            self.log = worker.take_output()
            self.failed = None if self.done else failure
            raise NotBuiltError(failure, zygote_ended=zygote_ended)
        worker.built = self.done = True

    def _read(self, reply: Mapping[str, Any]) -> BuildFailed | ToolMissing | None:
        """Keep what a worker says of its build; return why it failed, None where it did not."""
        if "missing" in reply:
            return ToolMissing(what=str(reply["missing"]))
        failed, built = reply.get("failed"), reply.get("built")
        if isinstance(failed, dict):
            # `frames` is (file, line) pairs of a worker's reply; what does not fit is left out.
            said = failed.get("frames")
            found = []
            for one in said if isinstance(said, list) else ():
                if isinstance(one, list) and len(one) == 2 and isinstance(one[1], int):
                    found.append((str(one[0])[:500], one[1]))
            frames = tuple(found[:20])
            return BuildFailed(
                what=str(failed.get("what")),
                log=str(failed.get("log")),
                frames=own_lines(frames, self._candidate.sources),
                out_of_memory=failed.get("memory") is True,
            )
        if not isinstance(built, dict) or not isinstance(built.get("seconds"), float):
            return BuildFailed(what="the build sent no valid reply", log="")
        if not self.done:
            self.seconds, self.cached = built["seconds"], bool(built.get("cached"))
        self.kind = str(built.get("kind", ""))[:200]
        self.because = str(built.get("because", ""))[:1000]
        self.tunes = built.get("tuners") not in (None, 0)
        self.imports_compiler = built.get("compiler") is True
        return None

    async def _died(self, worker: WorkerHandle, gone: GoneError) -> BuildFailed | ToolMissing:
        if gone.kind is Gone.TIMEOUT:
            what = f"building and importing did not end within {self._limits.build_s:g} s"
            if self.compiles:
                return ToolMissing(what=f"{what}: run it again, what was compiled is kept")
        elif gone.kind is Gone.ENDED:
            status = await worker.end()
            signal = status & 0x7F
            how = f"died of signal {signal}" if signal else f"exited with code {status >> 8}"
            what = f"the process {how} while it built and imported the candidate"
        else:
            what = f"while building and importing: {gone.what}"
        return BuildFailed(what=what, log=worker.take_output())
