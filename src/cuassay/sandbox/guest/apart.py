"""A program without a trace of who runs it: it loads a function, calls it, and shows memory.

Read as text and given to Python on its standard input. It imports heavy libraries once; a fork
of it becomes the zygote (see `zygote`), and every other fork a process that holds nothing but
these libraries, this text, and what it is told to load. Of the package that this file is from
nothing is imported here but in such a fork, to confine it, and it is forgotten before anything
is loaded.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import mmap
import os
import select
import signal
import socket
import struct
import sys
from typing import Any

_HEAD = struct.Struct("<I")
_CAP = 1 << 16
_MOST = 1 << 28
_TEXT = 4096
_CHUNK = 1 << 30


def begin(first: int, second: int) -> tuple[socket.socket, dict[str, str]] | None:
    """Import, fork the zygote, then fork on request; returns in such a fork alone."""
    control = socket.socket(fileno=second)
    control.set_inheritable(False)
    wish = json.loads(control.recv(_CAP))
    for name in wish["imports"]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is loaded now need not be walked again in a fork
    elder = os.fork()
    if elder == 0:
        control.close()
        importlib.import_module(wish["zygote"]).main(first)
        os._exit(0)
    os.close(first)
    library = ctypes.CDLL(None)
    library.prctl(4, 0, 0, 0, 0)  # nobody reads or traces it
    library.prctl(36, 1, 0, 0, 0)  # orphans of a fork come here
    return _watch(control, elder)


def _watch(control: socket.socket, elder: int) -> tuple[socket.socket, dict[str, str]] | None:
    living: dict[int, int] = {}
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    while True:
        sources: list[Any] = [control, woken]
        ready = select.select(sources, [], [])[0]
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, _CAP)
            _reap(control, living, elder)
        if control in ready:
            try:
                data, fds, _, _ = socket.recv_fds(control, _CAP, 4)
            except ConnectionResetError:
                data, fds = b"", []
            if not data:
                break
            request = json.loads(data)
            if request["do"] == "spawn":
                pid = os.fork()
                if pid == 0:
                    return _born(request, fds)
                living[pid] = request["id"]
                _tell(control, {"spawned": request["id"], "pid": pid})
            else:
                for pid in [pid for pid, number in living.items() if number == request["id"]]:
                    _kill(pid)
            for fd in fds:
                os.close(fd)
    for pid in living:
        _kill(pid)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(elder, 0)
    os._exit(0)


def _tell(control: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        control.send(json.dumps(message).encode())


def _kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _reap(control: socket.socket, living: dict[int, int], elder: int) -> None:
    """Collect what ended, with everything that it left running."""
    ended = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            left = set(_children()) - set(living) - {elder}
            if not left:
                break
            for stray in left:
                _kill(stray)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(stray, 0)
        elif pid in living:
            _kill(pid)
            ended.append({"ended": living.pop(pid), "status": status})
    for message in ended:
        _tell(control, message)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _born(request: dict[str, Any], fds: list[int]) -> tuple[socket.socket, dict[str, str]]:
    """Turn a fork into a confined process and forget how that is done."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (fds[1], 1), (fds[1], 2), (fds[0], 3)):
        os.dup2(source, target)
    os.closerange(4, 4096)
    os.set_inheritable(3, False)
    channel = socket.socket(fileno=3)
    report: dict[str, str] = importlib.import_module(request["confine"]).confine(request)
    package = request["confine"].partition(".")[0]
    home = os.path.dirname(str(sys.modules[package].__file__))
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]
    for place in [place for place in sys.path_importer_cache if place.startswith(home)]:
        del sys.path_importer_cache[place]
    for place in request["forget"]:
        sys.path_importer_cache.pop(place, None)
        while place in sys.path:
            sys.path.remove(place)
    del sys.argv[1:]
    gc.collect()
    return channel, report


class Loaded:
    """A function and the memory that it is called on."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.function: Any = None
        self.shared: dict[str, Any] = {}
        self.arguments: dict[str, list[Any]] = {}
        self.held: dict[str, list[tuple[str, Any]]] = {}

    def load(self, root: str, file: str, name: str) -> None:
        """Import a function from a file below `root`."""
        place = os.path.join(root, file)
        for folder in dict.fromkeys((root, os.path.dirname(place))):
            sys.path.insert(0, folder)
        stem = os.path.splitext(os.path.basename(file))[0]
        inside = os.path.isfile(os.path.join(os.path.dirname(place), "__init__.py"))
        if inside and os.path.dirname(file):
            module = importlib.import_module(os.path.splitext(file)[0].replace(os.sep, "."))
        else:
            spec = importlib.util.spec_from_file_location(stem, place)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[stem] = module
            spec.loader.exec_module(module)
        self.function = getattr(module, name)

    def place(self, slot: str, layout: list[dict[str, Any]], fd: int, size: int) -> None:
        """Lay arguments into memory that is shared with whoever gave the descriptor."""
        import torch

        view = mmap.mmap(fd, size)
        whole = torch.frombuffer(view, dtype=torch.uint8)
        self.shared[slot] = []
        found: list[Any] = []
        for entry in layout:
            if "scalar" in entry:
                found.append(entry["scalar"])
                continue
            start = entry["offset"]
            dtype = getattr(torch, entry["dtype"])
            count = dtype.itemsize
            for length in entry["shape"]:
                count *= length
            here = whole[start : start + count].view(dtype).reshape(entry["shape"])
            used = here if self.device == "cpu" else here.to(self.device)
            self.shared[slot].append((here, used))
            found.append(used)
        self.arguments[slot] = found

    def back(self, slot: str) -> None:
        """Bring arguments on a device back into the shared memory."""
        for here, used in self.shared[slot]:
            if here is not used and here.numel():
                here.copy_(used)

    def call(self, slot: str, result: str, outputs: list[str]) -> None:
        """Call the function; with `outputs` its last arguments are its results."""
        arguments = self.arguments[slot]
        returned = self.function(*arguments)
        if outputs:
            self.held[result] = list(zip(outputs, arguments[-len(outputs) :], strict=True))
        elif isinstance(returned, dict):
            self.held[result] = [(str(name)[:200], value) for name, value in returned.items()][:256]
        elif isinstance(returned, tuple | list):
            self.held[result] = [("", value) for value in returned[:256]]
        else:
            self.held[result] = [("", returned)]
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize()

    def describe(self, result: str) -> list[dict[str, Any]]:
        """Return what a call returned, without its values."""
        import torch

        found: list[dict[str, Any]] = []
        for name, value in self.held[result]:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"[:200]
            item: dict[str, Any] = {"kind": "other", "type_name": kind, "name": name}
            if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                dtype = str(value.dtype).removeprefix("torch.")
                item |= {"kind": "tensor", "dtype": dtype, "shape": list(value.shape)}
            elif type(value) in (bool, int, float):
                item |= {"kind": "scalar", "scalar": float(value)}
            elif value is None:
                item |= {"kind": "none"}
            found.append(item)
        return found

    def write(self, result: str, offsets: list[int], fd: int) -> None:
        """Write the tensors of a result at the given places of a file."""
        import torch

        tensors = [value for _, value in self.held[result] if isinstance(value, torch.Tensor)]
        for tensor, offset in zip(tensors, offsets, strict=True):
            whole = tensor.detach().cpu().contiguous()
            size = whole.numel() * whole.element_size()
            source = memoryview((ctypes.c_char * size).from_address(whole.data_ptr())).cast("B")
            done = 0
            while done < size:
                done += os.pwrite(fd, source[done : done + _CHUNK], offset + done)


def received(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next request and the descriptors with it; None once the channel is closed."""
    head, fds, _, _ = socket.recv_fds(channel, _HEAD.size, 4)
    while 0 < len(head) < _HEAD.size:
        head += channel.recv(_HEAD.size - len(head))
    if not head:
        return None
    left = min(_HEAD.unpack(head)[0], _MOST)
    body = bytearray()
    while len(body) < left:
        body += channel.recv(left - len(body))
    return json.loads(body), fds


def answer(channel: socket.socket, report: dict[str, str]) -> None:
    """Do what is asked for until the channel closes."""
    loaded = Loaded("cpu")
    while (asked := received(channel)) is not None:
        request, fds = asked
        reply: dict[str, Any] = {"done": True}
        try:
            match request["do"]:
                case "hello":
                    reply = {"walls": report}
                case "load":
                    loaded = Loaded(request["device"])
                    loaded.load(request["root"], request["file"], request["name"])
                case "place":
                    loaded.place(request["slot"], request["layout"], fds[0], request["size"])
                case "call":
                    loaded.call(request["slot"], request["result"], request["outputs"])
                case "back":
                    loaded.back(request["slot"])
                case "describe":
                    reply = {"items": loaded.describe(request["result"])}
                case "write":
                    loaded.write(request["result"], request["data"]["offsets"], fds[0])
                    reply = {"written": True}
                case "release":
                    loaded.held.clear()
        except Exception as error:
            text = str(error)[:_TEXT]
            reply = {"raised": {"exception": type(error).__name__[:200], "message": text}}
        for fd in fds:
            with contextlib.suppress(OSError):
                os.close(fd)
        sent = json.dumps({"nonce": request["nonce"], **reply}).encode()
        channel.sendall(_HEAD.pack(len(sent)) + sent)


if __name__ == "__main__":
    _made = begin(int(sys.argv[1]), int(sys.argv[2]))
    if _made is not None:
        try:
            answer(*_made)
        finally:
            os._exit(0)
