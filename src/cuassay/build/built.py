"""What building a candidate gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A candidate as a callable.

    `call` takes the problem's inputs in order, then, for the destination convention, its
    outputs. `cached` says that nothing was compiled or written because an earlier build in
    the same folder was found whole. `kind` is python, cuda_extension or cuda_kernel, with
    "+ptx-machine" where kernels run in the PTX machine and "+triton-interpreter" where Triton is
    interpreted, `because` of what then says. `seconds` is wall time.
    """

    call: Callable[..., object]
    seconds: float
    cached: bool
    kind: str
    because: str = ""
    toolchain: Mapping[str, str] = field(default_factory=dict)
