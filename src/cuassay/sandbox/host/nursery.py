"""The judge's handle of a zygote: starts it, asks for workers, hears how they ended."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cuassay
from cuassay import settings
from cuassay.closing import Closing
from cuassay.errors import CannotJudgeError
from cuassay.held_folder import SANDBOX, make_held_folder
from cuassay.home import private_dirs
from cuassay.model.device import CPU, Device
from cuassay.model.steps import Mode
from cuassay.sandbox import environment, processes, trees
from cuassay.sandbox.guest.process.zygote import CONTROL_CAP
from cuassay.sandbox.host.memory_group import make_group
from cuassay.sandbox.host.waits import await_readable, run_now
from cuassay.sandbox.limits import Limits
from cuassay.sandbox.readable import readable

_START_S = 120.0
_COMPILING_S = 900.0  # the PTX machine's runtime, the first time on a busy computer
_END_S = 20.0
_CALM_S = 2.0  # in which what was killed ends
_OWN_PROCESSES = 2  # the program of `guest.apart` and the zygote
STATE = "cuassay.sandbox.guest.observe.state_snapshot"
ROOT = str(Path(cuassay.__file__).resolve().parent.parent)
_PROGRAM = Path(__file__).parents[1] / "guest" / "process" / "apart.py"
_NOTES = _PROGRAM.with_name("notes.py")  # its second part


class NurseryError(CannotJudgeError):
    """The process that workers are forked from cannot be started or has died."""


class ForkServer:
    """The judge's end of a process that forks others on request and says how they ended.

    Each of them has a folder of its own in `folder`, named by `initial` and a number.
    """

    def __init__(self, control: socket.socket, folder: Path, *, initial: str) -> None:
        self.control, self.folder, self._initial = control, folder, initial
        self.pids: dict[int, int] = {}
        self._statuses: dict[int, int] = {}
        self._killed: set[int] = set()
        self._count = 0

    def spawn(
        self,
        *,
        channel: int,
        output: int,
        cache: Path,
        limits: Limits,
        mode: Mode = Mode.PLAIN,
        queues: int | None = None,
    ) -> tuple[int, Path]:
        """Ask for a worker; returns its id and folder at once. Raises NurseryError.

        `queues` is how many hardware queues of a GPU its streams share; None: the driver's own
        number.
        """
        raise NotImplementedError  # abstract

    def _place(self) -> Path:
        """Make the folder of the next worker."""
        self._count += 1
        folder = self.folder / f"{self._initial}{self._count}"
        (folder / "tmp").mkdir(parents=True)
        return folder

    def kill(self, worker: int) -> None:
        """Kill a worker and its tree if it still lives; `end` waits for it."""
        if worker not in self._statuses and worker not in self._killed:
            self._killed.add(worker)
            self._tell({"do": "end", "id": worker})

    async def end(self, worker: int) -> int:
        """Kill a worker and its tree if it still lives; return its wait status."""
        self.kill(worker)
        return await self.wait_status(worker, _END_S)

    async def wait_status(self, worker: int, limit_s: float) -> int:
        """Return a worker's wait status. Raises TimeoutError, NurseryError."""
        end = time.monotonic() + limit_s
        while worker not in self._statuses:
            left = end - time.monotonic()
            if left < 0:
                raise TimeoutError
            if await await_readable([self.control], left):
                self.hear()
        self.pids.pop(worker, None)
        trees.remove(self.folder / f"{self._initial}{worker}")
        return self._statuses[worker]

    def has_ended(self, worker: int) -> bool:
        """Whether the server has reported the end of this worker."""
        return worker in self._statuses

    def hear(self) -> None:
        """Take in one report of the server, if there is one. Raises NurseryError if it died."""
        try:
            data = self.control.recv(CONTROL_CAP, socket.MSG_DONTWAIT)
        except BlockingIOError:  # another one that waited for it has taken it in
            return
        except OSError:
            data = b""
        if not data:
            raise NurseryError(f"the process that workers are forked from died: {self._log()}")
        report = json.loads(data)
        if "spawned" in report:
            self.pids[report["spawned"]] = report["pid"]
        elif "ended" in report:
            self._statuses[report["ended"]] = report["status"]
        else:
            self._heard(report)

    def _heard(self, message: dict[str, Any]) -> None:
        """Take in what only some servers say."""

    def _log(self) -> str:
        with contextlib.suppress(OSError):
            text = (self.folder / "log").read_bytes()[-2000:].decode(errors="replace").strip()
            return text or "it left no message"
        return "its log is gone"

    def _tell(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self.control, [json.dumps(message).encode()], list(fds))
        except OSError:
            raise NurseryError(
                f"the process that workers are forked from died: {self._log()}"
            ) from None


class Nursery(Closing, ForkServer):
    """One zygote with its private folder; several pools of one device may share it.

    `hide` names folders that candidates shall not see: the run folders, by default, for they
    hold seeds. With `machine` the PTX machine's runtime is loaded before workers are forked; of
    a GPU's nursery that is in one of its own, `host`, whose workers see no GPU.
    """

    def __init__(
        self, device: Device, *, hide: Sequence[Path] | None = None, machine: bool = False
    ) -> None:
        self.device, self.machine = device, machine and not device.on_gpu
        self.host: Nursery | None = None
        # Held while this judge or its zygote lives.
        folder, self._lock = make_held_folder(SANDBOX, remove=trees.remove)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(ours, folder, initial="w")
        for name in ("home", "tmp"):
            (self.folder / name).mkdir()
        (self.folder / "inside").touch()  # what workers try to read, as they try their walls
        self._report: dict[str, str] = {}
        self._missing: list[str] = []
        self._ready, self._closed, self._compiler = False, False, False
        plain, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, other:
                numbers = [theirs.fileno(), other.fileno()]
                with open(self.folder / "log", "wb") as log, open(_PROGRAM, "rb") as program:
                    self._process = subprocess.Popen(
                        [sys.executable, "-P", "-", *map(str, numbers)],
                        pass_fds=[*numbers, self._lock],
                        env=environment.scrubbed(
                            os.environ, device=self.device, folder=self.folder
                        ),
                        cwd=self.folder,
                        stdin=program,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
        except OSError as error:
            self.control.close()
            plain.close()
            os.close(self._lock)
            trees.remove(self.folder)
            raise NurseryError(f"the worker zygote cannot be started: {error}") from None
        self.group = make_group(Limits().trial_bytes)
        if self.group is not None and not self.group.adopt(self._process.pid):
            self.group.close()
            self.group = None
        # First of all: both import while the judge finds out what workers may read.
        self.plain = Plain(plain, folder)
        if machine and not self.machine:
            self.host = Nursery(CPU, hide=hide, machine=True)
        hidden = list(private_dirs()) if hide is None else list(hide)
        closed = list(Path(tempfile.gettempdir()).glob(f"{SANDBOX}*"))
        # A file, since a message ends at 64 KiB and a crowded folder on Python's path does not.
        allowed = self.folder / "readable"
        allowed.write_text(json.dumps(readable(os.environ, device=device, closed=closed)))
        common = {
            "hide": [str(path) for path in hidden],
            "device": device,
            "readable": str(allowed),
            "judge": os.getpid(),
        }
        self.plain.common = common
        self._tell(
            common
            | {
                "folder": str(self.folder),
                "machine": self.machine,
                "told": environment.worker_settings(),
            }
        )

    @property
    def sandbox(self) -> Mapping[str, str]:
        """What the zygote's namespaces enforce: measure -> "yes", or why not."""
        if not self._ready:
            run_now(self.wait_ready())
        return self._report

    async def wait_ready(self) -> None:
        """Wait until workers can be forked. Raises NurseryError."""
        limit_s = _COMPILING_S if self.machine else _START_S
        end = time.monotonic() + limit_s
        while not self._ready:
            left = end - time.monotonic()
            if left < 0:
                raise NurseryError(f"the worker zygote was not ready within {limit_s:.0f} s")
            if await await_readable([self.control], left):
                self.hear()

    def spawn(
        self,
        *,
        channel: int,
        output: int,
        cache: Path,
        limits: Limits,
        mode: Mode = Mode.PLAIN,
        queues: int | None = None,
    ) -> tuple[int, Path]:
        """See ForkServer."""
        folder = self._place()
        request = {
            "do": "spawn",
            "id": self._count,
            "folder": str(folder),
            "cache": str(cache),
            "limits": dataclasses.asdict(limits),
            "mode": mode.value,
            "queues": queues,
            "confined": confined(),
            "told": environment.worker_settings(cache),
        }
        self._tell(request, (channel, output))
        return self._count, folder

    def load_compiler(self) -> None:
        """Let workers that are spawned from now on have torch.compile imported already."""
        if not self._compiler:
            self._compiler = True
            self._tell({"do": "load compiler"})

    def is_as_new(self) -> bool:
        """Whether what is forked from it is as from a new one, and nothing else is alive below it.

        It lives and has no compiler; no process that a candidate left outran the zygote.
        """
        try:
            for server in (self, self.plain):
                while select.select([server.control], [], [], 0.0)[0]:
                    server.hear()
        except (NurseryError, OSError, ValueError):
            return False
        within = self.host is None or self.host.is_as_new()
        if not within or self._compiler or self._process.poll() is not None:
            return False
        end = time.monotonic() + _CALM_S
        # Every process is read: the kernel's lists of children may lack one while others fork, and
        # what is missed here would meet the next candidate.
        while True:
            table = processes.visible_processes()
            below = processes.descendants([self._process.pid], table)
            if sum(table[pid].state != "Z" for pid in below) <= _OWN_PROCESSES:
                return True
            if time.monotonic() > end:
                return False
            time.sleep(0.01)

    def _heard(self, message: dict[str, Any]) -> None:
        self._ready, self._report = True, message["ready"]
        self._missing = message["missing"]

    def close(self) -> None:
        """End the zygote and every worker, and remove the folder."""
        if self._closed:
            return
        self._closed = True
        if self.host is not None:
            self.host.close()
        self.control.close()
        self.plain.control.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pid in self.pids.values():  # the zygote did this already, unless it was killed
            # Whether `pid` still leads the session that a worker of ours made
            try:
                is_worker = os.getsid(pid) == pid and pid != self._process.pid
            except OSError:
                is_worker = False
            if is_worker:
                processes.kill_group(pid)
        if self.group is not None:
            self.group.close()
        trees.remove(self.folder)
        os.close(self._lock)


class Plain(ForkServer):
    """Forks processes that hold nothing of cuassay; see `guest.apart`.

    It begins to import at once; `common`, the zygote's settings, is needed before the first fork.
    """

    def __init__(self, control: socket.socket, folder: Path) -> None:
        super().__init__(control, folder, initial="p")
        self.common: Mapping[str, Any] = {}
        imports = ("torch", "numpy", "triton", "triton.language")
        zygote = "cuassay.sandbox.guest.process.zygote"
        self._tell({"imports": imports, "zygote": zygote, "notes": str(_NOTES)})

    def spawn(
        self,
        *,
        channel: int,
        output: int,
        cache: Path,
        limits: Limits,
        mode: Mode = Mode.PLAIN,
        queues: int | None = None,
    ) -> tuple[int, Path]:
        """See ForkServer. The process has no cache: it writes to its own folder alone."""
        folder = self._place()
        request = {
            **self.common,
            "do": "spawn",
            "id": self._count,
            "confine": "cuassay.sandbox.guest.process.confine",
            "folder": str(folder),
            "outside": str(self.folder),
            "limits": dataclasses.asdict(limits),
            # Below its folder. Triton has read HOME when it was imported, before the fork.
            "variables": {"HOME": "", "TMPDIR": "tmp", "TRITON_HOME": ""},
            "without": ["PYTHONPATH"],
            # A folder of other packages, as where cuassay is installed, stays.
            "forget": [] if ROOT in sysconfig.get_paths().values() else [ROOT],
        }
        if mode is Mode.APART:
            request["guise"] = "cuassay.sandbox.guest.process.guise"
            request["look"] = STATE  # from before a candidate is loaded, to compare with
        self._tell(request, (channel, output))
        return self._count, folder


def confined() -> bool:
    """Whether nothing of a candidate may run where a required wall does not stand."""
    return settings.get("CUASSAY_SANDBOX") != "off"
