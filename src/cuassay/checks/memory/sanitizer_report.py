"""The reports of compute-sanitizer's tools as records: XML, or the text where that is broken.

A report passes through a process that the candidate shares: hostile text. Nothing in it is
expanded, every field is cut, and whatever does not fit is left out.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

_RECORDS, _FIELD = 200, 300
_NAME = "compute-sanitizer"
_OUTSIDE = re.compile(r"/(?:torch|triton|numpy|nvidia|cuassay)/|libtorch|libcuda|libc10|libpython")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One thing that a tool saw. `level` is error or warning, `kind` the tool's own word.

    `kernel` is the demangled function, `at` its `file:line` where there is line information,
    `host` the innermost frame of the host that is no library of torch or the driver.
    """

    kind: str = ""
    level: str = "error"
    text: str = ""
    kernel: str = ""
    at: str = ""
    address: str = ""
    size: str = ""
    block: str = ""
    thread: str = ""
    host: str = ""


def find_sanitizer() -> str:
    """Return the path of compute-sanitizer, or an empty string."""
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    homes += [str(path) for path in sorted(Path("/usr/local").glob("cuda*"))]
    for home in homes:
        for place in (Path(home) / "bin" / _NAME, Path(home) / _NAME / _NAME):
            if os.access(place, os.X_OK) and place.is_file():
                return str(place)
    return shutil.which(_NAME) or ""


def parse_report(report: str, log: str = "") -> list[Record]:
    """Return the records of a report, or those of the tool's text where it is no valid XML."""
    found = _from_xml(report)
    if found is None:
        found = list(_from_text(log or report))
    return found[:_RECORDS]


def of_kernels(records: list[Record], kernels: set[str]) -> list[Record]:
    """Return the records about kernels of these names; torch's own are nobody's fault here."""
    return [
        record
        for record in records
        if "at::" not in record.kernel and kernels & set(re.findall(r"\w+", record.kernel))
    ]


def _from_xml(report: str) -> list[Record] | None:
    """Return the records of XML; None for anything else, and for entities of its own."""
    if "<!" in report.replace("<!--", ""):
        return None
    try:
        root = ElementTree.fromstring(report)
    except (ElementTree.ParseError, ValueError, RecursionError):
        return None
    return [_xml_record(element) for element in root.iter("record")]


def _xml_record(element: ElementTree.Element) -> Record:
    line = _xml_text(element, "where/line")
    path = _xml_text(element, "where/path") or _xml_text(element, "where/file")
    level = _xml_text(element, "level").lower()
    return Record(
        kind=_xml_text(element, "kind"),
        level="warning" if level in ("warning", "info") else "error",
        text=_xml_text(element, "what/text") or _xml_text(element, "what"),
        kernel=_xml_text(element, "where/func") or _first(element, "func"),
        at=f"{os.path.basename(path)}:{line}" if path and line else "",
        address=_xml_text(element, "what/address") or _xml_text(element, "what/accessAddress"),
        size=_xml_text(element, "what/size"),
        block=_index(element, "blockIdx"),
        thread=_index(element, "threadIdx"),
        host=_host_frame(element),
    )


def _xml_text(element: ElementTree.Element, path: str) -> str:
    found = element.find(path)
    return _cut(found.text or "") if found is not None else ""


def _first(element: ElementTree.Element, tag: str) -> str:
    """Return the text of the first element of this name that is no frame of the host."""
    for child in element:
        if child.tag != "hostStack":
            for found in child.iter(tag):
                return _cut(found.text or "")
    return ""


def _index(element: ElementTree.Element, tag: str) -> str:
    found = element.find(f"who/{tag}")
    if found is None:
        return ""
    parts = [_xml_text(found, axis) for axis in ("x", "y", "z")]
    return ",".join(parts) if all(part.isdecimal() for part in parts) else ""


def _host_frame(element: ElementTree.Element) -> str:
    for frame in element.iterfind("hostStack/frame"):
        module, name = _xml_text(frame, "module"), _xml_text(frame, "func")
        if name and not _OUTSIDE.search(module):
            return name
    return ""


def _cut(text: str) -> str:
    return " ".join(text.split())[:_FIELD]


_AT = re.compile(r"(?:^at|access (?:at|by)|.* access at) (?P<func>.+?)(?:\+0x|:0x| in |$)")
_PLACE = re.compile(r" in (?P<file>[^\s:]+):(?P<line>\d+)")
_WHO = re.compile(r"thread \((?P<thread>[\d,]+)\)(?:.* in)? block \((?P<block>[\d,]+)\)")
_ADDRESS = re.compile(r"Address (?P<address>0x[0-9a-f]+)")
_STARTS = re.compile(
    r"(?:(?P<level>Error|Warning): )?(?P<text>(?:Invalid|Potential|Race|Uninitialized|Barrier|"
    r"Misaligned|Divergent|Double|Malformed|Missing|Out-of-range).*)"
)


def _from_text(log: str) -> Iterator[Record]:
    """Yield the records of the tool's text: lines that begin with `=========`."""
    current: Record | None = None
    for line in log.splitlines():
        if not line.startswith("========="):
            continue
        body = line.strip("= \t")
        start = _STARTS.match(body)
        if start:
            if current is not None:
                yield current
            level = (start["level"] or "Error").lower()
            current = _with_line(Record(level=level, text=_cut(start["text"])), body)
        elif current is not None:
            current = _with_line(current, body)
    if current is not None:
        yield current


def _with_line(record: Record, body: str) -> Record:
    if body.startswith("Host Frame"):
        return record
    at, place, who, address = (p.search(body) for p in (_AT, _PLACE, _WHO, _ADDRESS))
    if at and not record.kernel:
        record = replace(record, kernel=_cut(at["func"]))
    if place and not record.at:
        record = replace(record, at=f"{os.path.basename(place['file'])}:{place['line']}"[:_FIELD])
    if who and not record.thread:
        record = replace(record, thread=who["thread"][:30], block=who["block"][:30])
    if address and not record.address:
        record = replace(record, address=address["address"][:20])
    return record
