"""What a change of process-wide state means: which kind it is, how bad, and in which words."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cuassay.model.outcome import FindingClass, Severity

_TEXT = 120  # characters kept of a name or a value that a worker reports
_ARROW = " -> "


class StateKind(enum.Enum):
    """Kinds of changes; each is one finding."""

    TAMPERED = "tampered"  # what measures or compares
    REPLACED = "replaced"  # what computes
    FLAGS = "flags"
    SEEDED = "seeded"
    DRAWS = "draws"
    HANDLERS = "handlers"
    VARIABLES = "variables"
    OTHER_VARIABLES = "other variables"
    ASKS = "asks"  # what the process is
    HABITS = "habits"
    NONE = "none"

    @property
    def verdict(self) -> tuple[FindingClass, Severity]:
        """Return class and severity of its finding."""
        return _VERDICTS[self]

    @property
    def verb(self) -> str:
        """Return what the kernel does to the names of this kind."""
        return _VERBS.get(self, "sets")

    @property
    def binds(self) -> bool:
        """Whether the finding carries the condition `process-state`."""
        return self not in (StateKind.OTHER_VARIABLES, StateKind.TAMPERED)


_VERDICTS = {
    StateKind.TAMPERED: (FindingClass.WRONG, Severity.HIGH),
    StateKind.REPLACED: (FindingClass.UNSAFE, Severity.HIGH),
    StateKind.FLAGS: (FindingClass.UNSAFE, Severity.HIGH),
    StateKind.SEEDED: (FindingClass.UNSAFE, Severity.MEDIUM),
    StateKind.DRAWS: (FindingClass.ADVICE, Severity.LOW),
    StateKind.HANDLERS: (FindingClass.UNSAFE, Severity.MEDIUM),
    StateKind.VARIABLES: (FindingClass.UNSAFE, Severity.MEDIUM),
    StateKind.OTHER_VARIABLES: (FindingClass.ADVICE, Severity.LOW),
    StateKind.ASKS: (FindingClass.UNSAFE, Severity.HIGH),
    StateKind.HABITS: (FindingClass.ADVICE, Severity.LOW),
    StateKind.NONE: (FindingClass.ADVICE, Severity.LOW),
}
_VERBS = {
    StateKind.TAMPERED: "replaces",
    StateKind.REPLACED: "replaces",
    StateKind.SEEDED: "sets",
    StateKind.DRAWS: "draws from",
    StateKind.ASKS: "asks its own process about itself:",
}
_BY_WORD = {
    "function": StateKind.TAMPERED,
    "library": StateKind.REPLACED,
    "flag": StateKind.FLAGS,
    "seed": StateKind.SEEDED,
    "generator": StateKind.DRAWS,
    "process": StateKind.HANDLERS,
    "asks": StateKind.ASKS,
}
_HABITS = ("process garbage collector", "process every warning ignored")
# Read by CUDA's libraries, by torch or by the C library at any time: others depend on them.
_TELLING = frozenset(
    (
        *("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG"),
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_DEVICE_MAX_CONNECTIONS"),
        *("CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "PYTORCH_NO_CUDA_MEMORY_CACHING"),
        *("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "OMP_NUM_THREADS", "MKL_NUM_THREADS"),
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "HOME", "TMPDIR", "TZ", "LANG", "LC_ALL"),
    )
)
_TORCH_OWN = "_TORCH"  # set by torch's compiler for itself


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """One reading that changed; texts are the worker's, shortened and cleaned."""

    name: str
    old: str
    new: str

    @property
    def plain(self) -> str:
        """Return the name without its kind."""
        kind, _, rest = self.name.partition(" ")
        if kind in ("generator", "seed"):
            return f"the {kind} {'of ' if kind == 'generator' else ''}{rest}"
        return rest

    @property
    def full(self) -> str:
        """Return both values."""
        return f"{self.old}{_ARROW}{self.new}"

    @property
    def words(self) -> str:
        """Return the name, with the values where they say something to a reader."""
        places = "/" in self.old + self.new  # folders of ours: the details have them
        if (
            kind_of(self.name) in (StateKind.FLAGS, StateKind.HANDLERS, StateKind.HABITS)
            and not places
        ):
            return f"{self.plain} from {self.old} to {self.new}"
        return self.plain


def kind_of(name: str) -> StateKind:
    """Return the kind of a reading by its name; NONE for one that means nothing."""
    word, _, rest = name.partition(" ")
    if word == "environment":
        if rest.startswith(_TORCH_OWN):
            return StateKind.NONE
        return StateKind.VARIABLES if rest in _TELLING else StateKind.OTHER_VARIABLES
    return StateKind.HABITS if name in _HABITS else _BY_WORD.get(word, StateKind.NONE)


def changes_of(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[StateChange]:
    """Yield what differs from the baseline now and did not, or otherwise, before.

    Facts are names and `old -> new`. What is back as it was is no change.
    """
    for name, text in now.items():
        if before.get(name) == text:
            continue
        old, arrow, new = text.partition(_ARROW)
        if before.get(name) is not None:
            old = before[name].partition(_ARROW)[2]
        change = StateChange(name=_clean(name), old=_clean(old), new=_clean(new))
        if arrow and not _harmless(change):
            yield change


def _harmless(change: StateChange) -> bool:
    """Whether nobody suffers: a recursion limit that was raised, as torch's compiler does."""
    if change.name != "process recursion limit":
        return False
    return change.new.isdecimal() and change.old.isdecimal() and int(change.new) > int(change.old)


def _clean(text: str) -> str:
    """Return untrusted text in one short line, without addresses."""
    return re.sub(r" at [0-9a-f]+$", "", "".join(c for c in text if c.isprintable()))[:_TEXT]
