"""Capsules: one safetensors file a violation, with what another machine needs to see it again.

Tensors in*, got* (the kernel's) and want* (the trusted operator's); the header's `cuassay` key
holds a CapsuleHeader as JSON. Written in one step, within limits of size, number and rate;
evidence that exists is never deleted. Failing to write is counted and costs nothing else.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cuassay.home import home
from cuassay.model import serial
from cuassay.oracle.bits import raw_bytes
from cuassay_guard.config import CapsulePolicy
from cuassay_guard.events import Violation
from cuassay_guard.sampled import arbiter
from cuassay_guard.trusted import Where, located

if TYPE_CHECKING:
    from cuassay_guard.sampled.jobs import CheckJob

SUFFIX = ".capsule.safetensors"
_KEY = "cuassay"
_HOUR_S = 3600.0
_lock = threading.Lock()
_written: list[float] = []  # when capsules of this process were written, within the last hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is known of a tensor: always its form and digest; its values unless `why` says why not.

    The digest is salted per capsule, so that a redacted tensor cannot be guessed from it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str
    absmax: float | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsuleHeader:
    """Everything about a violation but its tensors.

    `template` puts the positional arguments together (see structure); places of inputs in
    `mutated` and `gradient_of` are as in the oracle's request. `candidate` is where the kernel
    can be imported from, `reference` the trusted operator; either may be unknown. `precision` is
    the declared policy, empty where the types of the call decide.
    """

    version: int
    violation: Violation
    template: str
    names: tuple[str, ...]
    inputs: int
    upstream: int
    mutated: tuple[int, ...]
    gradient_of: tuple[int, ...]
    accumulation: str
    reference: Where
    candidate: Where
    kernel_digest: str
    tensors: tuple[Kept, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    precision: str = ""
    salt: str = ""

    @property
    def complete(self) -> bool:
        """Whether every tensor's values are there."""
        return not any(one.why for one in self.tensors)


def capsule_folder(policy: CapsulePolicy) -> Path:
    """Return where capsules go."""
    return policy.folder or home() / "guard" / "capsules"


def kept(job: CheckJob, violation: Violation) -> Violation:
    """Write the evidence of a violation; return it with the path, empty where none was kept."""
    policy = job.watch.config.capsules
    if policy is None or not _within(job, policy):
        return violation
    try:
        path = _write(job, violation, policy)
    except Exception as failure:
        job.watch.trouble("the evidence", failure)
        return violation
    if path is None:
        return violation
    job.entry.capsules += 1
    job.watch.tally.add("capsules")
    return dataclasses.replace(violation, capsule=str(path))


def _within(job: CheckJob, policy: CapsulePolicy) -> bool:
    """Whether the limits allow another capsule; counts those that they do not."""
    now = time.monotonic()
    with _lock:
        _written[:] = [moment for moment in _written if now - moment < _HOUR_S]
        allowed = job.entry.capsules < policy.per_signature and len(_written) < policy.per_hour
        if allowed:
            _written.append(now)
    if not allowed:
        job.watch.tally.add("capsules left out")
    return allowed


def _write(job: CheckJob, violation: Violation, policy: CapsulePolicy) -> Path | None:
    place = capsule_folder(policy)
    place.mkdir(parents=True, exist_ok=True)
    held = sum(file.stat().st_size for file in place.glob(f"*{SUFFIX}"))
    call = arbiter.template_of(job)
    template, order = (
        call
        if call is not None
        else (["object", None], list(range(len(job.snapshot.tensors) - job.upstream)))
    )
    tensors = job.snapshot.tensors
    given = [tensors[place] for place in order] + tensors[len(tensors) - job.upstream :]
    parts = {"in": given, "got": job.snapshot.outputs, "want": job.wanted}
    named = {f"{kind}{i}": tensor for kind, part in parts.items() for i, tensor in enumerate(part)}
    salt = secrets.token_hex(8)
    large = sum(t.numel() * t.element_size() for t in named.values()) > policy.max_bytes
    redacted = _redacted(job, policy, order)
    notes = []
    for name, tensor in named.items():
        why = "redacted" if name in redacted else "larger than max_bytes" if large else ""
        host = tensor.detach().cpu().contiguous()
        digest = hashlib.sha256(salt.encode())
        digest.update(raw_bytes(host).numpy().tobytes())
        absmax = None
        if why != "redacted" and host.is_floating_point() and host.numel():
            absmax = float(host.double().abs().nan_to_num(0.0, 0.0).amax())
        notes.append(
            Kept(
                name=name,
                dtype=str(host.dtype).removeprefix("torch."),
                shape=tuple(host.shape),
                sha256=digest.hexdigest(),
                absmax=absmax,
                why=why,
            )
        )
    places = {place: new for new, place in enumerate(order)}
    trusted = job.watch.trusted
    header = CapsuleHeader(
        version=1,
        violation=violation,
        template=json.dumps(template) if template[0] != "object" else "",
        names=tuple(job.names()),
        inputs=len(job.snapshot.tensors),
        upstream=job.upstream,
        mutated=tuple(places[place] for place in job.written),
        gradient_of=tuple(places[place] for place in job.gradient_of),
        accumulation=trusted.accumulation.value,
        precision=trusted.precision.value if trusted.precision else "",
        reference=trusted.where or Where(),
        candidate=located(job.kernel)[0] or Where(),
        kernel_digest=job.watch.digest,
        tensors=tuple(notes),
        environment=environment(),
        salt=salt,
    )
    stored = {one.name: named[one.name] for one in notes if not one.why}
    size = sum(t.numel() * t.element_size() for t in stored.values())
    if held + size > policy.max_folder_bytes:
        job.watch.tally.add("capsules left out")
        return None
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(violation.unix_s))
    path = place / f"{file_part(violation.kernel)}-{stamp}-{secrets.token_hex(4)}{SUFFIX}"
    save_capsule(path, header, stored)
    return path


def save_capsule(path: Path, header: CapsuleHeader, tensors: Mapping[str, Tensor]) -> None:
    """Write a capsule in one step, over what is there. Raises OSError."""
    from safetensors.torch import save_file

    temporary = path.with_name(f".{path.name}")
    stored = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(stored, str(temporary), metadata={_KEY: serial.dumps(header)})
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _redacted(job: CheckJob, policy: CapsulePolicy, order: Sequence[int]) -> set[str]:
    """Return the tensors whose values stay in this process.

    With an input, everything computed from it stays too: outputs would give it away.
    """
    if not policy.redact:
        return set()
    found = {f"in{i}" for i, name in enumerate(arbiter.argument_names(job, order))
             if "*" in policy.redact or name in policy.redact}  # fmt: skip
    if found:
        found |= {f"{kind}{i}" for kind in ("got", "want") for i in range(len(job.wanted))}
        first = len(order)
        found |= {f"in{first + i}" for i in range(job.upstream)}
    return found


def environment() -> dict[str, str]:
    """Return what may matter for seeing it again; names no host, user or path."""
    found = {
        "python": platform.python_version(),
        "platform": platform.machine(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "",
        "matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
    }
    if torch.cuda.is_available():
        found["device"] = torch.cuda.get_device_name()
    return found


def file_part(name: str) -> str:
    """Return a kernel's name as part of a file's name."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:60] or "kernel"


def read_capsule(path: Path) -> tuple[CapsuleHeader, dict[str, Tensor]]:
    """Return a capsule. Raises UsageError where the file is none."""
    from safetensors import safe_open

    from cuassay.errors import UsageError

    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except Exception as failure:
        raise UsageError(f"{path} is not a readable safetensors file: {failure}") from None
    if _KEY not in metadata:
        raise UsageError(f"{path} is a safetensors file, but no capsule of cuassay's guard")
    return serial.loads(CapsuleHeader, metadata[_KEY]), tensors
