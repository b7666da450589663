"""Kernels of the world as candidates: what an adapter is, and the file that it is judged as."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from world_sources import extract

HALVES = ("bfloat16", "float16")
ALL = (*HALVES, "float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A package's kernel as a candidate. `text` defines `run` over the problem's inputs.

    `needs` names the definitions that are taken from the package's files (`package.module:name`),
    `before` stands above them; where there are none the text imports the package. `problem` is of
    the catalogue, or of `world_problems` after `world:`. `rejected_in_16_bits` says why the policy
    rejects the kernel in a 16-bit type, and rightly: there it must be REJECTED. So it must without
    a GPU, where every declared size is looked at by addresses, if its offsets `overflow` there
    (which says how). `precision` is the policy, where it is not the problem's; `limits` are the
    largest sizes that it takes, by axis: it raises beyond them, with a message that says so.
    """

    name: str
    problem: str
    package: str
    text: str
    needs: tuple[str, ...] = ()
    before: str = ""
    rejected_in_16_bits: str = ""
    overflow: str = ""
    precision: str = ""
    limits: tuple[tuple[str, int], ...] = ()
    dtypes: tuple[str, ...] = HALVES

    def written(self, folder: Path, packages: Path) -> Path:
        """Write the candidate into a folder and return its file.

        Raises LookupError and OSError where the packages do not have what it needs.
        """
        path = folder / f"{self.package}_{self.name}.py"
        taken = extract(packages, self.needs) if self.needs else ""
        path.write_text(f'"""{self.name} of {self.package}."""\n\n{self.before}{taken}{self.text}')
        return path
