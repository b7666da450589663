"""The worker process: bounds itself, builds the candidate, executes steps for the judge.

Everything here shares a process with the candidate, so nothing here is trusted: it reports
structure and moves bytes, the judge draws every conclusion.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import mmap
import os
import random
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch

from cuassay.build import tuned
from cuassay.build.sources import write_sources
from cuassay.errors import BuildError, MissingToolError
from cuassay.model import serial, walls
from cuassay.model.candidate import Candidate, Language
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.problem import Problem
from cuassay.model.scenario import Call, Step
from cuassay.model.steps import Backward, CallInto, Mode, StreamCall
from cuassay.model.trace import LOST_CHANNEL, Claim, StepDone, StepRaised
from cuassay.sandbox import environment, kernel_names, wire
from cuassay.sandbox import syscalls as kernel
from cuassay.sandbox.device_memory import DeviceMemoryError
from cuassay.sandbox.environment_failure import environment_failure
from cuassay.sandbox.gpu_context import begin_context
from cuassay.sandbox.guest import transport
from cuassay.sandbox.guest.callers import compiled
from cuassay.sandbox.guest.interface import Around
from cuassay.sandbox.guest.interpreter import Executed, Interpreter, raised
from cuassay.sandbox.guest.memory import guards, placement
from cuassay.sandbox.guest.observe import (
    call_trace,
    launches,
    native_calls,
    own_process,
    state_snapshot,
)
from cuassay.sandbox.guest.process import bytecode, preload
from cuassay.sandbox.guest.process import walls as sandbox
from cuassay.sandbox.guest.process.lines import Lines
from cuassay.sandbox.guest.ranks.ranked import on_ranks, open_where_ranks_connect
from cuassay.sandbox.limits import Limits

_FOLLOWED = (Call, CallInto, StreamCall, Backward)  # steps whose calls are judged one by one
_QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What a worker is confined by beside its limits.

    `readable` is what it may read beside its own folders. `outside` is a folder of the judge's
    and `judge` its process: what the walls are tried on. Where one that is required does not
    stand, nothing of a candidate is loaded, unless `required` is False. `told` are settings.
    """

    readable: tuple[str, ...]
    outside: str
    judge: int
    required: bool
    told: Mapping[str, str]


def main(
    *,
    channel: int,
    output: int,
    zygote: int,
    folder: str,
    cache: str,
    device: Device,
    limits: Limits,
    confinement: Confinement,
    namespaces: Mapping[str, str],
    mode: Mode = Mode.PLAIN,
    queues: int | None = None,
) -> None:
    """Turn a fresh fork into a worker and serve until the channel closes; never returns."""
    os.setsid()
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != zygote:
        os._exit(LOST_CHANNEL)
    # Keep standard streams and the channel alone; return the channel's new descriptor
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    # A descriptor that a candidate cannot guess; finding it gains nothing without the nonce.
    hidden = fcntl.fcntl(channel, fcntl.F_DUPFD_CLOEXEC, 256 + secrets.randbelow(2048))
    os.closerange(3, hidden)
    os.closerange(hidden + 1, hidden + 4096)
    os.environ.update(environment.private(Path(folder), Path(cache)))
    environment.adopt(confinement.told)
    os.chdir(folder)
    tempfile.tempdir = None
    # Inductor names the folder of its compiled headers as it is imported, before the fork.
    inductor: Any = sys.modules.get("torch._inductor.codecache")
    if hasattr(inductor, "_HEADER_DIR"):
        inductor._HEADER_DIR = os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], "headers")
        inductor._HEADER_LOCK_DIR = os.path.join(inductor._HEADER_DIR, "locks")
    sys.stdout, sys.stderr = (
        open(number, "w", buffering=1, errors="replace", closefd=False)  # noqa: SIM115
        for number in (1, 2)
    )
    kernel.set_dumpable(True)
    confine = partial(
        sandbox.restrict,
        limits,
        device=device,
        writable=(folder, cache),
        readable=confinement.readable,
        namespaces=namespaces,
    )
    own_network, starter = open_where_ranks_connect(limits.connects, confine)
    report = dict(namespaces) | own_network | confine()
    # Forks share the zygote's generators: without this every worker draws the same
    seed = secrets.randbits(63)
    random.seed(seed)
    torch.manual_seed(seed)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(seed & 0xFFFFFFFF)
    if mode is Mode.BLOCKING:
        os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
    guarded = guards.install(device) if mode is Mode.GUARDED else None
    connection = socket.socket(fileno=hidden)
    code = LOST_CHANNEL
    try:
        context_s = warm_up(device, queues)
        report |= sandbox.filter_calls(connects=limits.connects)
        Worker(
            connection,
            device=device,
            report=sandbox.standing(report, sandbox.climb(confinement.outside, confinement.judge)),
            around=Around(guards=guarded),
            required=confinement.required,
            starter=starter,
            context_s=context_s,
        ).serve()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        with contextlib.suppress(BaseException):
            sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


def warm_up(device: Device, queues: int | None = None) -> float:
    """Do what every scenario needs, before the judge waits for it.

    Returns the seconds in which the driver made a context, 0 on a CPU.
    """
    gc.unfreeze()  # as in a process that was not forked
    if not device.on_gpu:
        placement.recycle_addresses()
        return 0.0
    # The driver reads the variable as it makes the context; the candidate finds what the user set.
    own = os.environ.get(_QUEUES)
    if queues is not None:
        os.environ[_QUEUES] = str(queues)
    context = begin_context(device)
    preload.hash_triton()  # nothing to do where the zygote had the time
    context_s = 0.0 if context is None else context.result()
    with contextlib.suppress(Exception):  # reported by the build that needs it
        torch.zeros(1, device=device)
        torch.cuda.synchronize()
    if queues is not None:
        del os.environ[_QUEUES]
    if own is not None:
        os.environ[_QUEUES] = own
    return context_s


class Worker:
    """Answers the judge's requests one by one."""

    def __init__(
        self,
        channel: socket.socket,
        *,
        device: Device,
        report: dict[str, str],
        around: Around | None = None,
        required: bool = False,
        starter: socket.socket | None = None,
        context_s: float = 0.0,
    ) -> None:
        self._starter, self._context_s = starter, context_s
        self._channel, self._device, self._report = channel, device, report
        self._required = required
        self._around = around or Around()
        self._transport = transport.WorkerTransport(device)
        self._interpreter: Interpreter | None = None
        self._made = b""
        self._make: Any = None
        self._cases: tuple[Case, ...] = ()
        self._lines: Lines | None = None

    def serve(self) -> None:
        """Serve until the judge closes the channel."""
        while True:
            try:
                request, fds = wire.receive(self._channel)
            except wire.ClosedError:
                return
            reply: dict[str, Any]
            try:
                match request["do"]:
                    case "hello":
                        reply = {"walls": self._report, "context_s": self._context_s}
                        then = None
                    case "build":
                        reply, then = self._build(request), None
                    case "call":
                        reply, then = self._call(request, fds[0]), None
                    case "hand over":
                        fd = fds[0]
                        left = memoryview(self._made)
                        while left.nbytes:
                            left = left[os.write(fd, left[: 1 << 30]) :]
                        reply, then = {"written": True}, None
                    case "begin":
                        self._interpreter = None
                        launches.rearm()  # a scenario may have ended while kernels were off
                        if self._device.on_gpu:
                            placement.give_back_cuda_memory()
                        self._interpreter = self._make()
                        sizes = request["cases"]
                        self._cases = tuple(Case(label=str(i), axes=a) for i, a in enumerate(sizes))
                        reply, then = {"ok": True}, None
                    case _:
                        reply, then = self._step(request, fds)
            finally:
                for fd in fds:
                    with contextlib.suppress(OSError):
                        os.close(fd)
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            wire.send(self._channel, {"nonce": request["nonce"], **reply})
            if then is not None:
                self._send_tensors(then)

    def _build(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._required and walls.fallen(self._report):
            return {"missing": walls.why_not_run(self._report)}
        candidate = serial.from_json(Candidate, request["candidate"])
        problem = serial.from_json(Problem, request["problem"])
        module, _, function = str(request["builder"]).partition(":")
        own_process.watch(os.path.join(str(request["folder"]), "src"))
        asked = own_process.asked() | native_calls.asked()
        self._around.baseline = state_snapshot.snapshot() | asked
        guards.surround(self._around)
        self._around.untraceable = compiled.untraceable(candidate, self._device)
        if candidate.language is Language.CUDA_KERNEL:
            self._around.bound = "a raw CUDA kernel is launched by cuassay itself, on one device"
        self._around.kernels = kernel_names.kernels_of(candidate)
        try:
            if candidate.language in (Language.PYTHON, Language.CUDA_EXTENSION):
                # They are written first: of files that a compiler traces no values are noted.
                sources = os.path.realpath(write_sources(candidate, Path(request["folder"])))
                self._lines = Lines(sources, values=not self._device.on_gpu)
            load = getattr(importlib.import_module(module), function)
            bytecode.keep_bytecode(Path(request["folder"]))
            built = load(candidate, problem, device=self._device, folder=Path(request["folder"]))
        except MissingToolError as error:
            return {"missing": str(error)[:4096]}
        except BuildError as error:
            failure = environment_failure(error, log=f"{error.what}\n{error.log}")
            if failure:
                return {"missing": failure}
            cause = error.__cause__ or error
            frames = call_trace.candidate_frames(cause)
            if isinstance(cause, SyntaxError) and cause.lineno:
                frames = (*frames, (os.path.basename(cause.filename or ""), cause.lineno))
            failed = {"what": error.what[:4096], "log": error.log[-65536:], "frames": frames}
            return {"failed": failed}
        except SystemExit:
            raise
        except BaseException as error:
            failure = environment_failure(error)
            if failure:
                return {"missing": failure}
            record = raised(0, error)
            what = f"{record.exception}: {record.message}"
            return {
                "failed": {
                    "what": what,
                    "log": record.traceback,
                    "memory": record.claim is Claim.NO_MEMORY,
                }
            }
        call = on_ranks(
            built.call,
            problem,
            candidate,
            builder=str(request["builder"]),
            folder=Path(request["folder"]),
            device=self._device,
            starter=self._starter,
        )

        def make() -> Interpreter:
            if self._lines is not None:
                self._lines.forget()  # a scenario says what its own calls run
            return Interpreter(
                call,
                problem,
                device=self._device,
                convention=candidate.convention,
                result_bytes=int(request["result_bytes"]),
                around=self._around,
            )

        self._make = make
        return {
            "built": {
                "seconds": float(built.seconds),
                "cached": bool(built.cached),
                "kind": str(built.kind)[:200],
                "because": str(getattr(built, "because", ""))[:1000],
                "tuners": tuned.lists(),
                "compiler": "torch._dynamo" in sys.modules,
            }
        }

    def _call(self, request: dict[str, Any], fd: int) -> dict[str, Any]:
        """Call a function of cuassay on bytes and keep what it returns: no candidate is here."""
        module, _, name = str(request["function"]).partition(":")
        sizes = [int(size) for size in request["sizes"]]
        with (
            mmap.mmap(fd, max(sum(sizes), 1), prot=mmap.PROT_READ) as shared,
            memoryview(shared) as whole,
        ):
            # Each size with where a block of it ends, one block after another
            buffers = [
                whole[end - size : end]
                for size, end in list(zip(sizes, accumulate(sizes), strict=True))
            ]
            try:
                self._made = getattr(importlib.import_module(module), name)(*buffers)
            except Exception as error:
                return {"raised": f"{type(error).__name__}: {error}"[:4096]}
            finally:
                for buffer in buffers:
                    buffer.release()
        return {"size": len(self._made)}

    def _step(
        self, request: dict[str, Any], fds: Sequence[int]
    ) -> tuple[dict[str, Any], Executed | None]:
        assert self._interpreter is not None
        index = int(request["index"])
        step = serial.from_json(Step, request["step"])
        try:
            given = self._transport.open(request.get("data"), fds)
        except DeviceMemoryError as error:
            return {"refused": str(error)[:1000]}, None
        except Exception as error:  # a full device, which CUDA reports in many ways
            return {"record": serial.to_json(raised(index, error))}, None
        follows = self._lines is not None and isinstance(step, _FOLLOWED)
        follows = follows and not (isinstance(step, Call) and not step.noted)
        self._around.entered.pop("lines", None)
        if self._lines is not None and follows:
            self._around.entered["lines"] = self._lines.noted
        # The derivative of a kernel's own runs after its call.
        whole = self._lines if isinstance(step, Backward) else None
        with contextlib.nullcontext() if whole is None else whole.noted():
            done = self._interpreter.execute(step, index, cases=self._cases, given=given)
        del given
        reply: dict[str, Any] = {"record": serial.to_json(done.record)}
        if self._lines is not None and follows and isinstance(done.record, StepDone):
            reply["ran"] = self._lines.found()
        if isinstance(done.record, StepRaised) and self._context_lost():
            reply["lost"] = True
        return reply, done if done.tensors else None

    def _context_lost(self) -> bool:
        """Whether the CUDA context is beyond use: asked of the device, not read from texts."""
        if not self._device.on_gpu:
            return False
        try:
            torch.cuda.synchronize()
            torch.zeros(1, device=self._device).item()
        except Exception:
            return True
        return False

    def _send_tensors(self, done: Executed) -> None:
        """The judge saw the sizes and made room: write the bytes there."""
        request, fds = wire.receive(self._channel)
        try:
            self._transport.write(request["data"], fds, done.tensors)
            reply: dict[str, Any] = {"written": True}
        except DeviceMemoryError as error:
            reply = {"refused": str(error)[:1000]}
        except Exception as error:
            record = raised(done.record.index, error)
            reply = {"record": serial.to_json(replace(record, traceback=""))}
        finally:
            for fd in fds:
                os.close(fd)
        wire.send(self._channel, {"nonce": request["nonce"], **reply})
        if "refused" in reply:
            self._send_tensors(done)  # the judge makes room another way and asks again
