"""Recorded launches as bytes: a safetensors file that any process, and any machine, can replay.

One file holds the PTX of every module and, launch by launch, the kernel, its extents, its
parameters as raw bytes, and the memory that it can see: allocations at their addresses with
contents and with one bit a byte that says whether the byte was ever written. Contents are
stored where they differ from what the launch before left behind, so that a chain of kernels
costs its inputs once. A launch that a GPU executed also says what it left there. Where they were
asked for, the operations of torch around the launches are kept the same way. Equal contents are
stored once. Format: safetensors (8-byte little-endian header length, JSON header,
data); everything but the data is JSON text under the metadata key `cuassay-launches`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cuassay.errors import UsageError

VERSION = 1
_KEY = "cuassay-launches"
LIMIT_BYTES = 4 << 30  # of a file, and of the memory of one launch
_LIMIT_ADDRESSES = 1 << 47  # of a launch that is kept without its memory
_HEADER_LIMIT_BYTES = 100 * 2**20  # the format's own limit
_LAUNCHES = _REGIONS = 4096
OPERATIONS = 1 << 15  # of torch in one recording
_DEPTH = 4  # of lists in an operation's arguments
_TEXT = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One allocation: its name for reports, its address, its size in bytes.

    `dtype`, as torch names it, is that of the tensor that was passed, where it is known.
    `unwritten` is said of what is recorded without memory: some byte was never written by the
    host or by an operation of torch; `changed`: one was since the call began.
    """

    name: str
    base: int
    nbytes: int
    dtype: str = ""
    unwritten: bool = False
    changed: bool = False


class CallerOrder(enum.StrEnum):
    """From which streams of its caller a launch is in order with what comes before and after it."""

    ALWAYS = "always"
    DEFAULT = "default"  # only for a caller on the default stream
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLaunch:
    """One launch. `module` numbers the recording's PTX texts.

    `arguments` holds each parameter's bytes, little-endian. `contents` gives the bytes of
    regions, by their place in `regions`, that are not what the launch before left; `written`
    one bit a byte (little-endian bit order) for those of them that are not wholly initialised.
    `after` gives the bytes of regions as the launch left them where it was recorded: None where
    that is not known at all. `failure` is what the GPU reported of a launch that did not end well.
    `variables` gives the bytes of the module's own variables, by name, as the launch finds them.
    `results_read` is said of a launch that is recorded without being run: before it, or after the
    last one, host code took numbers out of what launches that were not run would have written.
    `assumes` are the lines of TTIR that a Triton kernel's assumptions are made of.
    `order` is known of launches that an extension's host code made without a GPU.
    `known` gives the bytes of those regions, by their place, that hold what a launch would find
    there although it is recorded without memory: indices.
    """

    module: int
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[bytes, ...]
    regions: tuple[Region, ...]
    contents: Mapping[int, bytes] = field(default_factory=dict)
    written: Mapping[int, bytes] = field(default_factory=dict)
    cluster: tuple[int, int, int] = (1, 1, 1)
    after: Mapping[int, bytes] | None = None
    failure: str = ""
    variables: Mapping[str, bytes] = field(default_factory=dict)
    results_read: bool = False
    assumes: str = ""
    order: CallerOrder | None = None
    known: Mapping[int, bytes] = field(default_factory=dict)


def elements_digest(data: bytes | memoryview) -> str:
    """Return the digest of a result's elements in order: BLAKE2b, 16 bytes, hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedResult:
    """A tensor that the call returned: its place in the allocation at `base`, in bytes.

    `digest` is that of its elements after the call (`elements_digest`).
    """

    name: str
    dtype: str
    base: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTensor:
    """A tensor's place: the address and size of its storage, its first element's bytes behind that.

    `strides` are in bytes.
    """

    base: int
    nbytes: int
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchWord:
    """An argument that torch has a name for: `kind` is dtype, layout, memory_format or device.

    Any other kind is the type of an argument that is not kept.
    """

    kind: str
    name: str


Argument: TypeAlias = (
    bool | int | float | str | RecordedTensor | TorchWord | tuple["Argument", ...] | None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOperation:
    """One operation of torch, such as `aten::add.Tensor`, after the first `launches` launches.

    `results` are the tensors that it made or wrote, with the bytes of their elements in order in
    `left`. `contents` gives the bytes of storages that it reads, by their addresses, where they
    are not what the recording left there, `written` as in a launch. `line` is `file:line` of the
    candidate.
    """

    name: str
    launches: int
    arguments: tuple[Argument, ...]
    named: Mapping[str, Argument] = field(default_factory=dict)
    results: tuple[RecordedTensor, ...] = ()
    left: tuple[bytes, ...] = ()
    contents: Mapping[int, bytes] = field(default_factory=dict)
    written: Mapping[int, bytes] = field(default_factory=dict)
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Modules as PTX text and the launches in order. `source` is shown beside findings.

    `results` says where the tensors that the call returned lie. `device` names the GPU that
    executed the launches; empty where the machine did. `notes` say what was not recorded, and
    `left_out` counts those launches. `operations` are torch's, in order, where they were asked for.
    `refused` are launches without arguments and memory that host code asked for where nothing was
    to run, and that CUDA would have refused.
    """

    modules: tuple[str, ...]
    launches: tuple[RecordedLaunch, ...]
    results: tuple[RecordedResult, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)  # file name -> text
    device: str = ""
    notes: tuple[str, ...] = ()
    left_out: int = 0
    operations: tuple[RecordedOperation, ...] = ()
    refused: tuple[RecordedLaunch, ...] = ()


def encode(recording: Recording) -> bytes:
    """Return the recording as the bytes of a safetensors file."""
    blobs: dict[bytes, int] = {}

    def put(data: bytes) -> int:
        return blobs.setdefault(data, len(blobs))

    document = {
        "version": VERSION,
        "modules": [put(text.encode()) for text in recording.modules],
        "sources": {name: put(text.encode()) for name, text in recording.sources.items()},
        "results": [dataclasses.asdict(result) for result in recording.results],
        "device": recording.device,
        "notes": list(recording.notes),
        "left_out": recording.left_out,
        "launches": [_described(launch, put) for launch in recording.launches],
    }
    if recording.operations:
        document["operations"] = [
            {
                "name": one.name,
                "launches": one.launches,
                "arguments": [_word(item) for item in one.arguments],
                "named": {name: _word(item) for name, item in one.named.items()},
                "results": [_word(item) for item in one.results],
                "left": [put(data) for data in one.left],
                "contents": [[base, put(data)] for base, data in one.contents.items()],
                "written": [[base, put(data)] for base, data in one.written.items()],
                "line": one.line,
            }
            for one in recording.operations
        ]
    if recording.refused:
        document["refused"] = [_described(launch, put) for launch in recording.refused]
    parts = list(blobs)
    header: dict[str, Any] = {"__metadata__": {_KEY: json.dumps(document)}}
    start = 0
    for number, blob in enumerate(parts):
        end = start + len(blob)
        header[f"b{number}"] = {"dtype": "U8", "shape": [len(blob)], "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def _described(launch: RecordedLaunch, put: Callable[[bytes], int]) -> dict[str, Any]:
    found = {
        "module": launch.module,
        "kernel": launch.kernel,
        "grid": launch.grid,
        "block": launch.block,
        "cluster": launch.cluster,
        "shared_bytes": launch.shared_bytes,
        "arguments": [argument.hex() for argument in launch.arguments],
        "regions": [
            [item.name, item.base, item.nbytes, item.dtype, item.unwritten, item.changed]
            for item in launch.regions
        ],
        "contents": {str(k): put(data) for k, data in launch.contents.items()},
        "written": {str(k): put(data) for k, data in launch.written.items()},
    }
    if launch.after is not None:
        found["after"] = {str(k): put(data) for k, data in launch.after.items()}
    if launch.variables:
        found["variables"] = {name: put(data) for name, data in launch.variables.items()}
    if launch.assumes:
        found["assumes"] = put(launch.assumes.encode())
    if launch.results_read:
        found["results_read"] = True
    if launch.order is not None:
        found["order"] = launch.order.value
    if launch.known:
        found["known"] = {str(k): put(data) for k, data in launch.known.items()}
    return found | ({"failure": launch.failure} if launch.failure else {})


def _word(item: Argument) -> Any:
    """Return an argument in JSON: objects for tensors and words, lists for tuples."""
    match item:
        case RecordedTensor():
            place = (item.base, item.nbytes, item.dtype, item.offset, item.shape, item.strides)
            return {"tensor": place}
        case TorchWord():
            return {"word": [item.kind, item.name]}
        case tuple():
            return [_word(one) for one in item]
        case _:
            return item


def decode(data: bytes) -> Recording:
    """Return the recording in a file's bytes. Raises UsageError for anything else."""
    try:
        content = memoryview(data)
        size = int.from_bytes(content[:8], "little")
        if not 2 <= size <= min(_HEADER_LIMIT_BYTES, len(content) - 8):
            raise ValueError(f"its header would have {size} bytes")
        header = json.loads(bytes(content[8 : 8 + size]))
        document = json.loads(header["__metadata__"][_KEY])
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']!r}, expected {VERSION}")
        body = content[8 + size :]

        @functools.cache  # what is named often is held once
        def blob(number: int) -> bytes:
            start, end = header[f"b{int(number)}"]["data_offsets"]
            if not 0 <= start <= end <= len(body):
                raise ValueError(f"blob {number} lies outside the file")
            return bytes(body[start:end])

        _require_few("modules", document["modules"], _LAUNCHES)
        _require_few("launches", document["launches"], _LAUNCHES)
        modules = tuple(blob(number).decode() for number in document["modules"])
        sources = {str(name): blob(n).decode() for name, n in document.get("sources", {}).items()}
        launches = tuple(_launch(item, blob, len(modules)) for item in document["launches"])
        refused = document.get("refused", [])
        _require_few("refused launches", refused, _LAUNCHES)
        listed = document.get("operations", [])
        _require_few("operations", listed, OPERATIONS)
        operations = tuple(_operation(item, blob) for item in listed)
        results = tuple(map(_result, document.get("results", ())))
        return Recording(
            modules=modules,
            launches=launches,
            refused=tuple(_launch(item, blob, len(modules)) for item in refused),
            sources=sources,
            results=results,
            device=str(document.get("device", ""))[:_TEXT],
            notes=tuple(str(note)[:_TEXT] for note in document.get("notes", ())[:_LAUNCHES]),
            left_out=max(0, int(document.get("left_out", 0))),
            operations=operations,
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"this is not a recording of launches ({type(error).__name__}: {error}); expected a "
            "safetensors file that `cuassay run --record` or `cuassay.record_launches` wrote"
        ) from None


def _require_few(what: str, listed: Sequence[Any], most: int) -> None:
    if len(listed) > most:
        raise ValueError(f"{len(listed)} {what}, expected {most} at most")


def _result(item: Mapping[str, Any]) -> RecordedResult:
    shape, strides = (tuple(map(int, item[name])) for name in ("shape", "strides"))
    if len(shape) != len(strides) or min((*shape, *strides), default=0) < 0:
        raise ValueError(f"a result of shape {shape} with strides {strides}")
    return RecordedResult(
        name=str(item["name"]),
        dtype=str(item["dtype"]),
        base=int(item["base"]),
        offset=int(item["offset"]),
        shape=shape,
        strides=strides,
        digest=str(item.get("digest", "")),
    )


def _launch(item: Mapping[str, Any], blob: Any, modules: int) -> RecordedLaunch:
    # The regions of a launch: at addresses, and no more than a machine holds.
    listed = item["regions"]
    _require_few("regions of a launch", listed, _REGIONS)
    regions = tuple(
        Region(
            name=str(n),
            base=int(b),
            nbytes=int(s),
            dtype=str(*more[:1]),
            unwritten=any(more[1:2]),
            changed=any(more[2:3]),
        )
        for n, b, s, *more in listed
    )
    total = sum(region.nbytes for region in regions)
    most = LIMIT_BYTES if item["contents"] else _LIMIT_ADDRESSES
    if any(region.nbytes < 0 for region in regions) or total > most:
        raise ValueError(f"a launch with {total} bytes of memory, expected 0 to {most}")
    if any(not 0 <= region.base < (1 << 64) - region.nbytes for region in regions):
        raise ValueError("a region outside of 64-bit addresses")
    contents = _bytes_of(item["contents"], regions, blob)
    after = _bytes_of(item["after"], regions, blob) if "after" in item else None
    if not 0 <= int(item["module"]) < modules:
        raise ValueError(f"module {item['module']} of {modules}")
    return RecordedLaunch(
        module=int(item["module"]),
        kernel=str(item["kernel"]),
        grid=_three(item["grid"]),
        block=_three(item["block"]),
        cluster=_three(item["cluster"]),
        shared_bytes=int(item["shared_bytes"]),
        arguments=tuple(bytes.fromhex(text) for text in item["arguments"]),
        regions=regions,
        contents=contents,
        written={int(k): blob(number) for k, number in item["written"].items()},
        after=after,
        failure=str(item.get("failure", ""))[:_TEXT],
        variables={str(k)[:_TEXT]: blob(n) for k, n in item.get("variables", {}).items()},
        results_read=bool(item.get("results_read", False)),
        assumes=blob(item["assumes"]).decode() if "assumes" in item else "",
        order=CallerOrder(item["order"]) if "order" in item else None,
        known=_bytes_of(item.get("known", {}), regions, blob),
    )


def _operation(item: Mapping[str, Any], blob: Callable[[int], bytes]) -> RecordedOperation:
    results = tuple(_argument(one) for one in item["results"])
    left = tuple(blob(number) for number in item["left"])
    if len(left) != len(results) or not all(isinstance(one, RecordedTensor) for one in results):
        raise ValueError(f"{len(results)} results of an operation and {len(left)} contents")
    contents = {int(base): blob(number) for base, number in item["contents"]}
    return RecordedOperation(
        name=str(item["name"])[:_TEXT],
        launches=int(item["launches"]),
        arguments=tuple(_argument(one) for one in item["arguments"]),
        named={str(name)[:_TEXT]: _argument(one) for name, one in item["named"].items()},
        results=tuple(one for one in results if isinstance(one, RecordedTensor)),
        left=left,
        contents=contents,
        written={int(base): blob(number) for base, number in item["written"]},
        line=str(item["line"])[:_TEXT],
    )


def _argument(item: Any, depth: int = 0) -> Argument:
    if isinstance(item, list) and depth < _DEPTH:
        return tuple(_argument(one, depth + 1) for one in item)
    if isinstance(item, dict) and "word" in item:
        kind, name = item["word"]
        return TorchWord(kind=str(kind)[:_TEXT], name=str(name)[:_TEXT])
    if isinstance(item, dict):
        base, nbytes, dtype, offset, shape, strides = item["tensor"]
        return RecordedTensor(
            base=int(base), nbytes=int(nbytes), dtype=str(dtype)[:_TEXT], offset=int(offset),
            shape=tuple(map(int, shape)), strides=tuple(map(int, strides)),
        )  # fmt: skip
    if item is None or isinstance(item, bool | int | float | str):
        return item
    raise ValueError(f"an argument of an operation that is {type(item).__name__}")


def _bytes_of(
    item: Mapping[str, Any], regions: Sequence[Region], blob: Callable[[int], bytes]
) -> dict[int, bytes]:
    found = {int(k): blob(number) for k, number in item.items()}
    for place, held in found.items():
        if place < 0 or len(held) != regions[place].nbytes:
            raise ValueError(f"{len(held)} bytes for {regions[place].nbytes} of a region")
    return found


def _three(extents: Any) -> tuple[int, int, int]:
    x, y, z = (int(extent) for extent in extents)
    return x, y, z
