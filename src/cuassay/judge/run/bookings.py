"""A GPU's memory is counted: trials side by side book what they need, and wait until it is free.

Every judge of a user on this machine writes its booking into one folder, a file each, which it
locks as long as it lives: who started it does not matter, and the booking of a judge that was
killed ends with it. Bookings are granted in the order of their coming, so that one that needs a
whole GPU gets it once those before it have ended.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from cuassay.closing import Closing
from cuassay.errors import CannotJudgeError
from cuassay.model.device import Device

_LOOK_S = 0.2
_LOCK = "lock"
_GRANTED, _WAITING = "granted", "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU whose memory is booked: its folder of bookings, and its bytes, all and free now."""

    folder: Path
    total_bytes: int
    free_bytes: Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What a booking that is not granted waits for: `holders` trials that hold `held_bytes`."""

    needed_bytes: int
    held_bytes: int
    holders: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    name: str
    granted: bool
    needed_bytes: int


def gpu_of(device: Device) -> Gpu | None:
    """Return the GPU of `device` (cuda, cuda:N); None on a CPU.

    Its folder belongs to this user alone. Raises CannotJudgeError where another user made it.
    """
    if not device.on_gpu:
        return None
    name = torch.cuda.get_device_properties(device).uuid
    folder = Path(tempfile.gettempdir()) / f"cuassay-{os.getuid()}-gpu-{name}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise CannotJudgeError(
            f"'{folder}' is not a folder of this user, and cuassay keeps there what its trials "
            "book of the GPU's memory: remove it, or set TMPDIR to another folder"
        )

    def free() -> int:
        return int(torch.cuda.mem_get_info(device)[0]) + torch.cuda.memory_reserved(device)

    return Gpu(folder=folder, total_bytes=int(torch.cuda.mem_get_info(device)[1]), free_bytes=free)


class Booking(Closing):
    """One trial's share of a GPU's memory; use it as a context manager. `gpu` None: no limit.

    `waits` is called each time a booking has to wait, and with None when it has what it waited for.
    """

    def __init__(
        self, gpu: Gpu | None, waits: Callable[[Queue | None], None] = lambda _: None
    ) -> None:
        self._gpu, self._waits = gpu, waits
        self._file = -1
        self._name = ""
        self.bytes = 0

    @property
    def is_alone(self) -> bool:
        """Whether no other trial books this GPU now."""
        if self._gpu is None:
            return True
        with self._locked():
            return not self._others()

    def take(self, needed_bytes: int) -> None:
        """Book so many bytes in place of what is booked, at most all there are; wait for them.

        What was booked before is given up while it waits, and its place in the queue is kept: two
        trials that both want more than is left do not wait for each other.
        """
        if self._gpu is None:
            return
        needed = min(needed_bytes, self._gpu.total_bytes)
        if self.bytes >= needed:
            return
        told = False
        with self._locked():
            if self._file < 0:
                assert self._gpu is not None
                self._name = f"{time.time_ns():020d}-{os.getpid()}"
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._file = os.open(self._gpu.folder / self._name, flags, 0o600)
                fcntl.flock(self._file, fcntl.LOCK_EX)  # as long as this process lives
            self._write(_WAITING, needed)
        while True:
            with self._locked():
                others = self._others()
                granted = [one.needed_bytes for one in others if one.granted]
                first = all(one.granted or one.name > self._name for one in others)
                room = not granted or (
                    sum(granted) + needed <= self._gpu.total_bytes
                    and needed <= self._gpu.free_bytes()
                )
                if first and room:
                    self._write(_GRANTED, needed)
                    self.bytes = needed
                    break
            if not told:
                told = True
                self._waits(
                    Queue(needed_bytes=needed, held_bytes=sum(granted), holders=len(granted))
                )
            time.sleep(_LOOK_S)
        if told:
            self._waits(None)

    def close(self) -> None:
        """Give the booking up."""
        if self._gpu is None or self._file < 0:
            return
        (self._gpu.folder / self._name).unlink(missing_ok=True)
        os.close(self._file)
        self._file, self.bytes = -1, 0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder: one judge at a time reads it and decides."""
        assert self._gpu is not None
        lock = os.open(self._gpu.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _write(self, state: str, needed_bytes: int) -> None:
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{state} {needed_bytes}".encode(), 0)
        if state is _WAITING:
            self.bytes = 0

    def _others(self) -> list[_Entry]:
        """Return the bookings of the judges that live; those of others are removed."""
        assert self._gpu is not None
        found = []
        for path in sorted(self._gpu.folder.iterdir()):
            if path.name in (_LOCK, self._name):
                continue
            with suppress(FileNotFoundError):
                if _is_held(path):
                    state, _, needed = path.read_text(encoding="ascii").partition(" ")
                    entry = _Entry(
                        name=path.name,
                        granted=state == _GRANTED,
                        needed_bytes=int(needed or 0),
                    )
                    found.append(entry)
                else:
                    path.unlink(missing_ok=True)
        return found


def _is_held(path: Path) -> bool:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False
