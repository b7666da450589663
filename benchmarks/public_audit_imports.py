"""Rows of earlier runs as rows of the public audit.

Understood are the journals and results of `wild.py` and `foreign.py`, the results of
`false_alarms.py --kinds trusted`, and the journals and results of `world.py`, of which kernels that
a policy rejects rightly, and those written for it, are passed over. Each import states who judged:
the version, the machine, its packages and the time, which these files do not carry in every row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernel_sets import Kernel, read_index
from public_audit_rows import Row, about_kernel

from cuassay.audit.family import operator_family
from cuassay.checks import registry

# Kinds of world.py: rejected by its policy, planted, and written for it by nobody outside.
_NOT_PUBLIC = ("rejected", "fault", "wrong", "model")
_TORCH = ("transformers", "timm", "torchvision", "diffusers")  # the other libraries write Triton
_VERDICTS = ("ACCEPTED", "REJECTED", "INCONCLUSIVE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who judged the rows of a file: `judged_at` in UTC, `version` of cuassay.

    `section` names one of several runs that a file of results holds; empty for its only one.
    """

    device: str
    machine: str
    versions: str
    judged_at: str
    version: str
    section: str = ""


def import_rows(file: Path, runs: Path, origin: Origin) -> list[Row]:
    """Write the rows of `file` below `runs`/imported and return them.

    Rows of kernels that the index of `runs` does not hold are passed over.
    """
    kernels = {kernel.key: kernel for kernel in read_index(runs)}
    name = "-".join(filter(None, (file.stem, origin.section))) + file.suffix
    rows = _rows(file, origin.section)
    found = [row for each in rows if (row := _row(each, kernels, origin, name))]
    place = runs / "imported" / f"{file.parent.name}-{Path(name).stem}.ndjson"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("".join(json.dumps(asdict(row)) + "\n" for row in found), encoding="utf-8")
    return found


def _rows(file: Path, section: str) -> Iterator[Mapping[str, Any]]:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ndjson":
        yield from map(json.loads, text.splitlines())
        return
    document = json.loads(text)
    if section:
        document = document["results"][section]
    shared = {"profile": document["profile"]} if "profile" in document else {}
    for row in document.get("rows") or document["kernels"]:
        yield {**shared, **row}


def _row(
    each: Mapping[str, Any], kernels: Mapping[str, Kernel], origin: Origin, source: str
) -> Row | None:
    if each.get("kind") in _NOT_PUBLIC:
        return None
    if "dtype" in each:
        about = _of_library(each)
    else:
        kernel = kernels.get(_key(each))
        if kernel is None:
            return None
        about = about_kernel(kernel)
    ending = str(each.get("decision") or each["ending"])
    rejected = ending == "REJECTED"
    codes = each.get("checks") or each.get("codes", ())
    checks = tuple(code.partition(":")[0] for code in codes) if rejected else ()
    return Row(
        **about,
        profile=str(each.get("profile") or each.get("mode", "quick")),
        device=origin.device,
        verdict=ending if ending in _VERDICTS else "",
        ending="judged" if ending in _VERDICTS else ending.lower(),
        seconds=round(float(each["seconds"]), 1),
        reason=str(each.get("reason", ""))[:300],
        checks=tuple(sorted(set(checks))),
        classes=tuple(sorted(set(_classes(checks)))),
        conditions=tuple(text.partition(":")[0] for text in each.get("conditions", ())),
        seed=str(each.get("seed", "")),
        machine=origin.machine,
        versions=origin.versions,
        version=origin.version,
        judged_at=origin.judged_at,
        source=source,
    )


def _key(each: Mapping[str, Any]) -> str:
    if "name" in each:
        return f"{each.get('set', 'sol')}/{each['name']}"
    family, _, name = str(each["key"]).partition("/")
    return f"{family}-references/{name}"


def _of_library(each: Mapping[str, Any]) -> dict[str, Any]:
    name = str(each.get("kernel") or each["name"])
    package = re.split("[/_]", name)[0]
    return {
        "set": "trusted-libraries",
        "name": f"{name}/{each['problem']}/{each['dtype']}",
        "operator": str(each["problem"]),
        "family": operator_family(str(each["problem"])),
        "kind": "library",
        "language": "torch" if package in _TORCH else "cuda" if package == "sdpa" else "triton",
        "model": package,
        "label": "correct",
        "digest": "",
        "published": True,
    }


def _classes(codes: Iterable[str]) -> Iterator[str]:
    """Yield the leading failure class of each check that has one."""
    for code in codes:
        yield from registry.classes(code)[:1]
