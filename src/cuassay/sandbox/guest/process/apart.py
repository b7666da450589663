"""A program without a trace of who runs it: it loads a function, calls it, and shows memory.

Read as text and given to Python on its standard input; its second part, `notes`, it reads as text
too. It imports heavy libraries once; a fork of it becomes the zygote (see `zygote`), and every
other fork a process that holds nothing but these libraries, these texts, and what it is told to
load. Of the package that this file is from nothing is imported here but in such a fork, to confine
it, and it is forgotten before anything is loaded.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import gc
import importlib
import importlib.util
import json
import mmap
import os
import random
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

_HEAD = struct.Struct("<I")
_CAP = 1 << 16
_MOST = 1 << 28
_TEXT = 4096
_CHUNK = 1 << 30
_END_S = 8.0  # for the zygote to end its workers and what these left


def begin(first: int, second: int) -> tuple[socket.socket, dict[str, Any]] | None:
    """Import, fork the zygote, then fork on request; returns in such a fork alone."""
    control = socket.socket(fileno=second)
    control.set_inheritable(False)
    wish = json.loads(control.recv(_CAP))
    gc.disable()  # what is imported stays: to look for garbage meanwhile takes a sixth of the time
    for name in wish["imports"]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    notes: dict[str, Any] = {"__name__": __name__}
    with open(wish["notes"], encoding="utf-8") as file:
        # Under the name that the first part has: no frame shows where the text lies.
        exec(compile(file.read(), begin.__code__.co_filename, "exec", dont_inherit=True), notes)
    gc.enable()
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
    return _watch(control, elder, notes)


def _watch(
    control: socket.socket, elder: int, notes: dict[str, Any]
) -> tuple[socket.socket, dict[str, Any]] | None:
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
                    # Its number is soon another file's, such as one of a GPU's driver: that the
                    # object ends must close nothing.
                    control.detach()
                    channel, report = _born(request, fds)
                    return channel, report | {"notes": notes}
                living[pid] = request["id"]
                _tell(control, {"spawned": request["id"], "pid": pid})
            else:
                for pid in [pid for pid, number in living.items() if number == request["id"]]:
                    _kill(pid)
            for fd in fds:
                os.close(fd)
    for pid in living:
        _kill(pid)
    # Whoever asked is gone. The zygote ends by itself, but not while it imports and compiles.
    end = time.monotonic() + _END_S
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(elder, os.WNOHANG)[0] == 0:
            if time.monotonic() > end:
                _kill(elder)
            time.sleep(0.02)
    _reap(control, {}, elder)  # what any of them left running
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
            try:
                with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
                    children = [int(pid) for pid in file.read().split()]
            except OSError:
                children = []
            left = set(children) - set(living) - {elder}
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


def _born(request: dict[str, Any], fds: list[int]) -> tuple[socket.socket, dict[str, Any]]:
    """Turn a fork into a confined process and forget how that is done."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    first = fds[1] if "guise" in request else null
    for source, target in ((first, 0), (fds[1], 1), (fds[1], 2), (fds[0], 3)):
        os.dup2(source, target)
    os.closerange(4, 4096)
    os.set_inheritable(3, False)
    channel = socket.socket(fileno=3)
    report = {"walls": importlib.import_module(request["confine"]).confine(request)}
    if "guise" in request:
        importlib.import_module(request["guise"]).put_on(os.getcwd())
        report["later"] = _clocks()
    report["folder"] = os.getcwd()
    if "look" in request:
        report["state"] = importlib.import_module(request["look"]).look()
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
    gc.unfreeze()  # as in a process that was not forked
    return channel, report


def _clocks() -> Callable[[float, float], None]:
    """Return what sets the clocks of Python's `time` and `datetime` ahead by some seconds.

    From then on each reading sets them ahead by the second number times 2^-8 to 2^8, as a machine
    does that others use: a quarter of that range further from one reading to the next, so that of
    two calls which each take the time twice one takes long.
    Their functions stay the same objects: it is the code behind them that another one replaces.
    """
    head, word = object.__basicsize__, ctypes.sizeof(ctypes.c_void_p)
    word_at, number_at = ctypes.c_void_p.from_address, ctypes.c_int.from_address
    plain, of_type, with_words = 0x04, 0x14, 0x92  # METH_* in methodobject.h
    ahead_s, pace_s, drawn = 0.0, 0.0, random.Random().random
    within = drawn()

    def shift(function: Any, flags: int, arguments: int, unit: Any, whole: bool = False) -> None:
        entry = word_at(id(function) + head).value or 0  # its PyMethodDef
        if number_at(entry + 2 * word).value != flags:
            return  # another version of Python
        kind = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * arguments)
        place = word_at(entry + word)
        real = kind(place.value or 0)

        def shifted(*given: Any) -> Any:
            nonlocal ahead_s, within
            within = (within + 0.22 + 0.06 * drawn()) % 1.0
            ahead_s += pace_s * 2.0 ** (16.0 * within - 8.0)
            found = real(*given)
            return found + (int(ahead_s * unit) if whole else ahead_s * unit)

        made = kind(shifted)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # for as long as the process lives
        place.value = ctypes.cast(made, ctypes.c_void_p).value

    def later(seconds: float, pace: float) -> None:
        nonlocal ahead_s, pace_s
        ahead_s, pace_s = ahead_s + seconds, pace

    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        shift(getattr(time, name), plain, 2, 1)
        shift(getattr(time, f"{name}_ns"), plain, 2, 10**9, True)
    second = datetime.timedelta(seconds=1)
    shift(datetime.datetime.now, with_words, 4, second)
    shift(vars(datetime.datetime)["utcnow"].__get__(None, datetime.datetime), of_type, 2, second)
    return later


def answer(  # noqa: C901, PLR0912, PLR0915  # what it calls by name could be replaced
    channel: socket.socket, report: dict[str, Any]
) -> None:
    """Do what is asked for until the channel closes, then end the process.

    One function without helpers: all that it needs is bound before anything is loaded, so that
    nothing of it can be replaced by name. What a call returned is described as the call ends,
    and where it lies is said then, once: whoever asked reads it from outside.
    """
    import torch

    base: Any = torch._C.TensorBase
    quiet: Any = torch._C.DisableTorchFunctionSubclass
    no_grad, strided, cpu = torch.no_grad, torch.strided, torch.device("cpu")
    data_ptr, storage, copy = base.data_ptr, torch.Tensor.untyped_storage, base.copy_
    contiguous, detach, to_cpu = base.contiguous, base.detach, base.cpu
    dtype_of, shape_of, layout_of = base.dtype.__get__, base.shape.__get__, base.layout.__get__
    device_of, strides_of, conj, neg = base.device.__get__, base.stride, base.is_conj, base.is_neg
    graded = base.requires_grad.__get__
    nested = base.is_nested.__get__
    size_of, count_of, resize = base.element_size, base.numel, base.resize_
    frombuffer, empty, synchronize = torch.frombuffer, torch.empty, torch.cuda.synchronize
    dtypes, unless = dict(vars(torch)), contextlib.suppress
    decoder: Any = json.JSONDecoder()
    scan = decoder.scan_once
    encode = json.JSONEncoder(ensure_ascii=True).encode
    pack, unpack, head_size = _HEAD.pack, _HEAD.unpack, _HEAD.size
    receive, take, send, rights = channel.recvmsg, channel.recv, channel.sendall, socket.SCM_RIGHTS
    numbers, room = struct.Struct("@i"), socket.CMSG_SPACE(16)
    close, leave, write, memory = os.close, os._exit, os.pwrite, mmap.mmap
    char, collect, objects = ctypes.c_char, gc.collect, sys.getallocatedblocks
    collections = gc.get_stats
    shown = ctypes.CDLL(None).mmap
    shown.restype, shown.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t,
        ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]  # fmt: skip
    say, insert = os.path, sys.path.insert
    listed, texts, kind_of, get = isinstance, str, type, getattr
    # What a subclass says that it holds is not asked.
    of_tuple, of_list, entries = tuple.__iter__, list.__iter__, dict.items
    reading = ("__getitem__", "__iter__", "__len__")
    least, most, chunk, text_most = min, _MOST, _CHUNK, _TEXT
    perturb = get(ctypes.CDLL(None), "mallopt", None)
    later = report.pop("later", None)
    notes: dict[str, Any] = report.pop("notes")
    follower, watcher = notes["follow"], notes["watch"]
    followed, watched = list[Any](), list[Any]()
    modules, importer, util = sys.modules, importlib.import_module, importlib.util
    for names in (globals(), notes):
        for name in [name for name in names if name[:2] != "__"]:
            del names[name]
    slots: dict[str, list[Any]] = {}
    mapped: dict[str, list[tuple[Any, Any]]] = {}
    held: dict[str, list[tuple[str, Any]]] = {}
    function: Any = None
    device, rested = "cpu", 0
    if perturb is not None:
        perturb(-4, 0)  # freed blocks stay in the heap: their addresses are used again
        perturb(-1, 2**31 - 1)
    while True:
        head, ancillary, _, _ = receive(head_size, room)
        while 0 < len(head) < head_size:
            head += take(head_size - len(head))
        if not head:
            leave(0)
        left = least(unpack(head)[0], most)
        body = bytearray()
        while len(body) < left:
            body += take(left - len(body))
        fds = [
            n for _, kind, data in ancillary if kind == rights for (n,) in numbers.iter_unpack(data)
        ]
        request, _ = scan(body.decode(), 0)
        reply: dict[str, Any] = {"done": True}
        try:
            match request["do"]:
                case "hello":
                    reply = {"walls": report["walls"], "state": report.get("state")}
                    reply["folder"] = report["folder"]
                case "look":
                    # A candidate that imports the package may have changed what looks.
                    own = request["import"].partition(".")[0]
                    for name in [one for one in modules if one.partition(".")[0] == own]:
                        del modules[name]
                    insert(0, request["path"])
                    reply = {"state": importer(request["import"]).look()}
                case "load":
                    report.clear()
                    device, root = request["device"], request["root"]
                    place = say.join(root, request["file"])
                    for folder in dict.fromkeys((root, say.dirname(place))):
                        insert(0, folder)
                    if request.get("package"):  # that the candidate itself imports
                        insert(1 << 20, request["package"])
                    if request.get("follow"):
                        followed += follower(root)
                        watched += watcher(root)
                    if request.get("tuner"):  # a text: its tuners take what others chose
                        tuner: dict[str, Any] = {"__name__": "tuner"}
                        with open(request["tuner"], encoding="utf-8") as file:
                            exec(compile(file.read(), "<tuner>", "exec", dont_inherit=True), tuner)
                        tuner["tune_once"](tuner["Path"](request["choices"]))
                        del tuner, file
                    stem = say.splitext(say.basename(place))[0]
                    inside = say.isfile(say.join(say.dirname(place), "__init__.py"))
                    if inside and say.dirname(request["file"]):
                        dotted = say.splitext(request["file"])[0].replace("/", ".")
                        function = get(importer(dotted), request["name"])
                    else:
                        spec: Any = util.spec_from_file_location(stem, place)
                        module = util.module_from_spec(spec)
                        modules[stem] = module
                        spec.loader.exec_module(module)
                        function = get(module, request["name"])
                        del spec, module
                case "place":
                    size = request["size"]
                    if request.get("read_only"):
                        at = shown(None, size, 1, 1, fds[0], 0)  # PROT_READ, MAP_SHARED
                        view = (char * size).from_address(at)
                    else:
                        view = memory(fds[0], size)
                    slot: list[Any] = []
                    both: list[tuple[Any, Any]] = []
                    for entry in request["layout"]:
                        if "scalar" in entry:
                            slot.append(entry["scalar"])
                            continue
                        dtype, count = dtypes[entry["dtype"]], 1
                        for length in entry["shape"]:
                            count *= length
                        if count and not entry.get("own"):
                            here = frombuffer(
                                view, dtype=dtype, count=count, offset=entry["offset"]
                            )
                            here = resize(here, entry["shape"])
                        else:
                            here = empty(entry["shape"], dtype=dtype)
                        used = here if device == "cpu" else here.to(device)
                        slot.append(used)
                        both.append((here, used))
                    reply = {"at": [data_ptr(used) for _, used in both]}
                    slots[request["slot"]], mapped[request["slot"]] = slot, both
                    del view, both, slot
                case "call":
                    arguments, names = slots[request["slot"]], request["outputs"]
                    held.pop(request["result"], None)
                    byte, part, happened = request.get("fill"), request.get("part"), False
                    if byte is not None and perturb is not None:
                        perturb(-6, byte ^ 0xFF or 0x100)
                    if later is not None:
                        later(request["later_s"], request["pace_s"])
                    try:
                        for _ in range(request["before"]):
                            function(*arguments)
                        if followed and request["follow"]:
                            watched[0]()
                            followed[0]()
                        if part:
                            watched[4](part, arguments)
                        returned = function(*arguments)
                    finally:
                        if followed:
                            followed[1]()
                            watched[1]()
                            happened = watched[4](None, arguments)
                        if byte is not None and perturb is not None:
                            perturb(-6, 0)
                    if device != "cpu":
                        synchronize()
                    if names:
                        found = list(zip(names, arguments[-len(names) :], strict=True))
                    elif listed(returned, dict):
                        pairs = list(entries(returned))[:256]
                        found = [(texts(name)[:200], one) for name, one in pairs]
                    elif listed(returned, (tuple, list)):
                        each = of_tuple if listed(returned, tuple) else of_list
                        found = [("", one) for one in list(each(returned))[:256]]
                    else:
                        found = [("", returned)]
                    container = ""
                    for holder in (tuple, list, dict):
                        if listed(returned, holder) and not names:
                            own = kind_of(returned)
                            read = all(get(own, n) is get(holder, n) for n in reading)
                            exact = f"{own.__module__}.{own.__qualname__}"
                            container = holder.__name__ if read else exact[:200]
                    del returned, arguments
                    held[request["result"]] = found
                    items = []
                    for name, one in found:
                        own = kind_of(one)
                        exact = f"{own.__module__}.{own.__qualname__}".removeprefix("builtins.")[
                            :200
                        ]
                        item: dict[str, Any] = {"kind": "other", "type_name": exact, "name": name}
                        if listed(one, base):
                            with quiet():
                                dtype = texts(dtype_of(one)).removeprefix("torch.")
                                if layout_of(one) is strided and not nested(one):
                                    item |= {
                                        "kind": "tensor",
                                        "dtype": dtype,
                                        "shape": list(shape_of(one)),
                                        "strides": list(strides_of(one)),
                                        "device": texts(device_of(one)),
                                        "conj": conj(one),
                                        "neg": neg(one),
                                    }
                                    try:
                                        item["storage"] = storage(one).data_ptr()
                                        item["storage_bytes"] = storage(one).nbytes()
                                    except RuntimeError:
                                        item["storage"] = 0  # it has none to ask
                                    plain = own is torch.Tensor and not conj(one) and not neg(one)
                                    if plain and device_of(one) == cpu:
                                        item["at"] = data_ptr(one)
                                else:
                                    item["type_name"] = f"{exact}[{layout_of(one)}]"
                        elif own in (bool, int, float):
                            try:
                                item |= {"kind": "scalar", "scalar": texts(float(one))}
                            except OverflowError:
                                item |= {"kind": "scalar", "scalar": "inf"}
                        elif one is None:
                            item |= {"kind": "none", "type_name": "NoneType"}
                        items.append(item)
                    reply = {"items": items, "container": container, "exchanged": happened}
                    if followed and (request["follow"] or part):
                        reply["ran"] = followed[2]() | watched[2]()
                    del found, one, own
                case "back":
                    now: list[dict[str, Any]] = []
                    for here, used in mapped[request["slot"]]:
                        same_shape = shape_of(here) == shape_of(used)
                        if here is not used and count_of(here) and same_shape:
                            copy(here, used)
                        now.append(
                            {
                                "shape": list(shape_of(used)),
                                "strides": list(strides_of(used)),
                                "dtype": texts(dtype_of(used)).removeprefix("torch."),
                                "requires_grad": graded(used),
                                "storage": storage(used).data_ptr(),
                            }
                        )
                    reply = {"inputs": now}
                    now = []
                case "forth":
                    for number, scalar in request["scalars"]:
                        slots[request["slot"]][number] = scalar
                    for here, used in mapped[request["slot"]]:
                        if here is not used and count_of(here):
                            copy(used, here)
                case "write":
                    tensors = [held[request["result"]][number][1] for number in request["which"]]
                    for tensor, offset in zip(tensors, request["data"]["offsets"], strict=True):
                        with no_grad():
                            if (
                                kind_of(tensor) is torch.Tensor
                                and not conj(tensor)
                                and not neg(tensor)
                            ):
                                whole = contiguous(to_cpu(detach(tensor)))
                            else:
                                whole = empty(list(shape_of(tensor)), dtype=dtype_of(tensor))
                                copy(whole, tensor)
                        size = count_of(whole) * size_of(whole)
                        source = memoryview((char * size).from_address(data_ptr(whole))).cast("B")
                        done = 0
                        while done < size:
                            done += write(fds[0], source[done : done + chunk], offset + done)
                    tensors.clear()
                    reply = {"written": True}
                case "rest":
                    # A look at all objects takes a tenth of a second, nearly all of them torch's.
                    # Only where more are left than at the last rest can garbage be among the old;
                    # the few more that a look at the young ones leaves are none a call.
                    for oldest in (1, 2):
                        if oldest == 1 or not rested or objects() > rested + 8:
                            collect(oldest)
                            # What Python keeps of what is freed, a look at all objects gives back:
                            # here it is as much as it ever keeps, each time.
                            spare: list[Any] = [
                                [(n,) * n for n in range(1, 21)] for _ in range(2000)
                            ]
                            spare.append([[[n], {n: n}, n / 2] for n in range(100)])
                            spare.clear()
                    rested = objects()
                    reply = {"objects": rested}
                    reply["garbage"] = sum(one["collected"] for one in collections())
                case "release":
                    for kept in (slots, mapped, held):
                        kept.pop(request["name"], None)
                case "begin":
                    for kept in (slots, mapped, held):
                        kept.clear()
                    if followed:
                        followed[3]()
                        watched[3]()
        except Exception as error:
            text = ""
            try:
                text = texts(error)[:text_most]
            except Exception:
                text = "(the exception's own __str__ raised)"
            reply = {"raised": {"exception": kind_of(error).__name__[:200], "message": text}}
        for fd in fds:
            with unless(OSError):
                close(fd)
        sent = encode({"nonce": request["nonce"], **reply}).encode()
        send(pack(len(sent)) + sent)


if __name__ == "__main__":
    _made = begin(int(sys.argv[1]), int(sys.argv[2]))
    if _made is not None:
        answer(*_made)
