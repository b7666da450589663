"""Which kernel of a repository belongs to which problem: `[tool.cuassay.kernels]`, or a file.

    [tool.cuassay.kernels]                 # in pyproject.toml, or [kernels] in cuassay-kernels.toml
    "kernels/rmsnorm.py" = "rmsnorm"
    "kernels/attention/*.py" = "attention"
    "kernels/scale.py" = "problems/scale.py"

Keys are paths or patterns relative to the file, values what `--problem` takes. A `/` in a pattern
is matched as such: `*` stays inside one folder, `**` does not.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from cuassay.errors import UsageError

FILES = ("cuassay-kernels.toml", "pyproject.toml")
_EXAMPLE = '[tool.cuassay.kernels]\n"kernels/rmsnorm.py" = "rmsnorm"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The kernels of a repository. `problems` maps patterns to problems, in the file's order."""

    path: Path
    problems: tuple[tuple[str, str], ...]

    @property
    def folder(self) -> Path:
        """The folder that the manifest's paths are relative to."""
        return self.path.parent

    def problem_of(self, kernel: Path) -> str | None:
        """Return the problem of a kernel, None where it is not listed. The first match holds."""
        for pattern, problem in self.problems:
            if _matches(kernel, pattern, self.folder):
                path = problem.partition(":")[0]
                there = (self.folder / path).exists() and ("/" in path or "." in path)
                return str(self.folder / problem) if there else problem
        return None

    def kernels(self) -> tuple[Path, ...]:
        """Return every file that a pattern matches, sorted."""
        found = {
            path
            for pattern, _ in self.problems
            for path in self.folder.glob(pattern)
            if path.is_file()
        }
        return tuple(sorted(found))

    def touched(self, changed: tuple[Path, ...]) -> tuple[Path, ...]:
        """Return the kernels that a change concerns: changed ones, and those of changed problems.

        A change of the manifest concerns all of them. Deleted files are left out.
        """
        every = self.kernels()
        if self.path in changed:
            return every
        found = set()
        for kernel in every:
            problem = Path(self.problem_of(kernel) or "")
            near = [kernel, *([kernel.parent] if kernel.name in ("kernel.py", "kernel.cu") else [])]
            if any(_concerns(path, near, problem) for path in changed):
                found.add(kernel)
        return tuple(sorted(found))


def read_manifest(path: Path | None, start: Path) -> Manifest:
    """Return the manifest in `path`, else the nearest one from `start` upwards.

    Raises UsageError where there is none, or where it is no table of texts.
    """
    if path is not None:
        return _read(path.absolute(), required=True)
    for folder in (start, *start.parents):
        for name in FILES:
            if (folder / name).is_file():
                found = _read(folder / name, required=False)
                if found.problems:
                    return found
        if (folder / ".git").exists():
            break
    raise UsageError(
        f"no kernels are listed: neither {' nor '.join(FILES)} above {start} has a table of them; "
        f"add one, such as\n{_EXAMPLE}"
    )


def _read(path: Path, *, required: bool) -> Manifest:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    own = data.get("kernels") if path.name != "pyproject.toml" else None
    table = own or data.get("tool", {}).get("cuassay", {}).get("kernels")
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{path}: kernels is a {type(table).__name__}, expected a table")
    if table is None:
        if required:
            raise UsageError(f"{path} lists no kernels; add\n{_EXAMPLE}")
        return Manifest(path=path, problems=())
    for pattern, problem in table.items():
        if not isinstance(problem, str) or not problem or pattern.startswith(("/", "..")):
            raise UsageError(
                f'{path}: "{pattern}" = {problem!r}: expected a path inside the repository and '
                f"the problem that it belongs to, such as\n{_EXAMPLE}"
            )
    return Manifest(path=path, problems=tuple(table.items()))


def _matches(kernel: Path, pattern: str, folder: Path) -> bool:
    try:
        relative = kernel.absolute().relative_to(folder).as_posix()
    except ValueError:
        return False
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    signs = {"**/": r"(?:.*/)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    return re.fullmatch("".join(signs.get(p) or re.escape(p) for p in parts), relative) is not None


def _concerns(changed: Path, near: list[Path], problem: Path) -> bool:
    place = Path(str(problem).partition(":")[0])
    own = place.is_absolute() and (changed == place or changed.is_relative_to(place))
    return own or any(changed == one or changed.is_relative_to(one) for one in near)
