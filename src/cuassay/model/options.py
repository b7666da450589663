"""How a kernel is judged: what the command line, Python, pytest, audits and programs may choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from cuassay.errors import UsageError
from cuassay.model.conditions import required
from cuassay.model.device import Device
from cuassay.model.precision import Precision, precision_named
from cuassay.model.profile import Profile


class Given(TypedDict, total=False):
    """What a caller passes; see `Options`. Names stand for members, a text for a device."""

    profile: Profile | str
    device: str | None
    seed: int | None
    require: Sequence[str]
    precision: Precision | str | None


class Chosen(TypedDict):
    """The fields of `Options`, as a job takes them."""

    profile: Profile
    device: Device | None
    seed: int | None
    require: tuple[str, ...]
    precision: Precision | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`profile` says how much to try and `require` which conditions must hold.

    Without a `device` it is a GPU where there is one, without a `seed` a secret one is drawn, and
    without a `precision` the problem's policy counts.
    """

    profile: Profile = Profile.STANDARD
    device: Device | None = None
    seed: int | None = None
    require: tuple[str, ...] = ()
    precision: Precision | None = None

    @classmethod
    def read(
        cls,
        *,
        profile: Profile | str = Profile.STANDARD,
        device: str | None = None,
        seed: int | None = None,
        require: Sequence[str] = (),
        precision: Precision | str | None = None,
    ) -> Options:
        """Return the options that a caller passes. Raises UsageError for a value that is none."""
        legal = [member.value for member in Profile]
        if profile not in legal:
            raise UsageError(f"profile is '{profile}', expected one of {', '.join(legal)}")
        return cls(
            profile=Profile(profile),
            device=None if device is None else Device(device),
            seed=seed,
            require=required(require),
            precision=precision_named(precision),
        )

    def chosen(self) -> Chosen:
        """Return the fields by name."""
        return Chosen(
            profile=self.profile,
            device=self.device,
            seed=self.seed,
            require=self.require,
            precision=self.precision,
        )
