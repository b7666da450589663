"""Which precision a kernel may keep: the families of trusted implementations, and policies."""

from __future__ import annotations

import enum

from cuassay.errors import UnknownNameError

CONDITION = "precision"  # the key of the condition, as `--require` names it


class Precision(enum.StrEnum):
    """A family of trusted implementations, each a part of the next. As a policy: the widest one.

    strict  the arithmetic of the reference as written, sums in the declared accumulation
    tf32    products of float32 operands may round them to TF32 (11 bits)
    mixed   results of products, and elementwise results that a 16-bit tensor went into, may be
            rounded once to the problem's 16-bit type, and float32 tensors may be cast to it where
            they meet 16-bit ones; sums stay in float32
    fp8     products of 8-bit floats may be summed in the short accumulators of tensor cores
    """

    STRICT = "strict"
    TF32 = "tf32"
    MIXED = "mixed"
    FP8 = "fp8"

    @property
    def families(self) -> tuple[Precision, ...]:
        """The families that a policy accepts, the least first."""
        order = tuple(Precision)
        return order[: order.index(self) + 1]

    @property
    def condition(self) -> str:
        """What an acceptance depends on where this family explains a kernel's error."""
        return "" if self is Precision.STRICT else f"{CONDITION}: {_WORDS[self]}"

    def advice(self, low: str = "16 bits") -> str:
        """Say under which policy a kernel is accepted that this family explains, and what it does.

        `low` names the problem's 16-bit type. Empty for `strict`, which every policy accepts.
        """
        kernel = {
            Precision.STRICT: "",
            Precision.TF32: "the kernel rounds operands of products to TF32",
            Precision.MIXED: f"the kernel keeps intermediates in {low}",
            Precision.FP8: "the kernel sums 8-bit products in short accumulators",
        }[self]
        return f"accepted with --precision {self.value}: {kernel}" if kernel else ""


_WORDS = {
    Precision.TF32: "products of operands rounded to TF32",
    Precision.MIXED: "16-bit intermediates",
    Precision.FP8: "short accumulators of tensor cores, whose error grows with the length of a sum",
}


def precision_named(name: str | Precision | None) -> Precision | None:
    """Return the policy of this name, None for None. Raises UnknownNameError."""
    legal = [policy.value for policy in Precision]
    if name is None:
        return None
    if name not in legal:
        raise UnknownNameError("precision", str(name), legal)
    return Precision(name)
