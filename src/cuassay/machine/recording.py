"""Recorded launches as bytes: a safetensors file that any process, and any machine, can replay.

One file holds the PTX of every module and, launch by launch, the kernel, its extents, its
parameters as raw bytes, and the memory that it can see: allocations at their addresses with
contents and with one bit a byte that says whether the byte was ever written. Contents are
stored where they differ from what the launch before left behind, so that a chain of kernels
costs its inputs once. Format: safetensors (8-byte little-endian header length, JSON header,
data); everything but the data is JSON text under the metadata key `cuassay-launches`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cuassay.errors import UsageError

VERSION = 1
_KEY = "cuassay-launches"
_HEADER_LIMIT_BYTES = 100 * 2**20  # the format's own limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One allocation: its name for reports, its address, its size in bytes."""

    name: str
    base: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLaunch:
    """One launch. `module` numbers the recording's PTX texts.

    `arguments` holds each parameter's bytes, little-endian. `contents` gives the bytes of
    regions, by their place in `regions`, that are not what the launch before left; `written`
    one bit a byte (little-endian bit order) for those of them that are not wholly initialised.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedResult:
    """A tensor that the call returned: its place in the allocation at `base`, in bytes.

    `digest` is that of the whole allocation (BLAKE2b, 16 bytes, hexadecimal) after the call.
    """

    name: str
    dtype: str
    base: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Modules as PTX text and the launches in order. `source` is shown beside findings.

    `results` says where the tensors that the call returned lie.
    """

    modules: tuple[str, ...]
    launches: tuple[RecordedLaunch, ...]
    results: tuple[RecordedResult, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)  # file name -> text


def encode(recording: Recording) -> bytes:
    """Return the recording as the bytes of a safetensors file."""
    blobs: list[bytes] = []

    def put(data: bytes) -> int:
        blobs.append(data)
        return len(blobs) - 1

    document = {
        "version": VERSION,
        "modules": [put(text.encode()) for text in recording.modules],
        "sources": {name: put(text.encode()) for name, text in recording.sources.items()},
        "results": [dataclasses.asdict(result) for result in recording.results],
        "launches": [
            {
                "module": launch.module,
                "kernel": launch.kernel,
                "grid": launch.grid,
                "block": launch.block,
                "cluster": launch.cluster,
                "shared_bytes": launch.shared_bytes,
                "arguments": [argument.hex() for argument in launch.arguments],
                "regions": [[item.name, item.base, item.nbytes] for item in launch.regions],
                "contents": {str(k): put(data) for k, data in launch.contents.items()},
                "written": {str(k): put(data) for k, data in launch.written.items()},
            }
            for launch in recording.launches
        ],
    }
    return _file(document, blobs)


def _file(document: Mapping[str, Any], blobs: list[bytes]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {_KEY: json.dumps(document)}}
    start = 0
    for number, blob in enumerate(blobs):
        end = start + len(blob)
        header[f"b{number}"] = {"dtype": "U8", "shape": [len(blob)], "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(blobs)


def decode(data: bytes) -> Recording:
    """Return the recording in a file's bytes. Raises UsageError for anything else."""
    try:
        return _decoded(memoryview(data))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"this is not a recording of launches ({type(error).__name__}: {error}); expected a "
            "safetensors file that `cuassay run --record` wrote"
        ) from None


def _decoded(data: memoryview) -> Recording:
    size = int.from_bytes(data[:8], "little")
    if not 2 <= size <= min(_HEADER_LIMIT_BYTES, len(data) - 8):
        raise ValueError(f"its header would have {size} bytes")
    header = json.loads(bytes(data[8 : 8 + size]))
    document = json.loads(header["__metadata__"][_KEY])
    if document["version"] != VERSION:
        raise ValueError(f"version {document['version']!r}, expected {VERSION}")
    body = data[8 + size :]

    def blob(number: int) -> bytes:
        start, end = header[f"b{int(number)}"]["data_offsets"]
        if not 0 <= start <= end <= len(body):
            raise ValueError(f"blob {number} lies outside the file")
        return bytes(body[start:end])

    modules = tuple(blob(number).decode() for number in document["modules"])
    sources = {str(name): blob(n).decode() for name, n in document.get("sources", {}).items()}
    launches = tuple(_launch(item, blob, len(modules)) for item in document["launches"])
    results = tuple(map(_result, document.get("results", ())))
    return Recording(modules=modules, launches=launches, sources=sources, results=results)


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
    regions = tuple(Region(name=str(n), base=int(b), nbytes=int(s)) for n, b, s in item["regions"])
    contents = {int(k): blob(number) for k, number in item["contents"].items()}
    for place, held in contents.items():
        if len(held) != regions[place].nbytes:
            raise ValueError(f"{len(held)} bytes for {regions[place].nbytes} of a region")
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
    )


def _three(extents: Any) -> tuple[int, int, int]:
    x, y, z = (int(extent) for extent in extents)
    return x, y, z
