"""Every exception that ptxsan raises on purpose.

PtxsanError
├── MachineError  the machine cannot execute a text or a launch; carries the PTX line
│   └── LaunchError  no GPU of the architecture accepts the launch
├── CompileError  a compiler does not accept the source; carries its log
└── UsageError    the caller's request is off, or a tool that it needs is missing
"""

from __future__ import annotations


class PtxsanError(Exception):
    """Base of every exception that ptxsan raises on purpose."""


class MachineError(PtxsanError):
    """The PTX machine cannot execute a text or a launch.

    `line` is the 1-based line of the PTX text, 0 where no line is at fault.
    """

    def __init__(self, what: str, *, line: int = 0) -> None:
        self.line = line
        super().__init__(f"PTX line {line}: {what}" if line else what)


class LaunchError(MachineError):
    """No GPU of the chosen architecture accepts the launch; the message names the limit."""


class CompileError(PtxsanError):
    """A compiler does not accept the source. `log` is its message: untrusted text."""

    def __init__(self, what: str, log: str = "") -> None:
        self.log = log
        super().__init__(f"{what}\n{log}" if log else what)


class UsageError(PtxsanError):
    """The caller's request is off, or a tool that it needs is missing: one message."""
