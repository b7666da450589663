"""Why inputs leave a mutant alive that some legal input tells apart, by what it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Operator and the beginning of the mutant's words; the first that fits explains.
_EXPLAINED: Mapping[tuple[str, str], str] = {
    (
        "grouped_gemm",
        "",
    ): "each group's product is broken alone, and the two groups concerned happen to be empty in "
    "the one planned case whose values leave float16's range (empty groups are drawn on purpose)",
    (
        "linear_cross_entropy_backward",
        "right factor rounded to float16",
    ): "differs only for hidden states below float16's smallest number; the planned case that has "
    "them gives gradients at the bottom of bfloat16's range, which a kernel may flush to zero",
    (
        "linear_cross_entropy_backward",
        "left side of '*' rounded to bfloat16",
    ): "one more bfloat16 rounding of a value that the reference itself rounds to bfloat16 in its "
    "next step: below the limit on all planned cases",
    (
        "fp8_gemm",
        "left side of '*' rounded to bfloat16",
    ): "one more bfloat16 rounding of a value that the reference rounds to bfloat16 at the end: "
    "below the limit on all planned cases; near-constant rows, where elements round alike, show it",
    (
        "sample_top_p",
        "right side of '-' rounded to bfloat16",
    ): "changes a token only where a kept weight lies within a bfloat16 rounding of top_p; the "
    "planned rows hold no such token, log-normal rows with another top_p do",
}
_AT_THE_LIMIT = "its error lies at the limit: the input of the search that shows it most "


def explained(operator: str, survivor: Mapping[str, Any]) -> str:
    """Return why a survivor was not told apart; empty where nobody has looked yet."""
    if survivor["why"].startswith("only just, "):
        return _AT_THE_LIMIT + survivor["why"].removeprefix("only just, ").replace("at", "is", 1)
    words = survivor["words"]
    found = (
        text
        for (name, beginning), text in _EXPLAINED.items()
        if name == operator and words.startswith(beginning)
    )
    return next(found, "")


def explain(rows: Mapping[str, dict[str, Any]]) -> None:
    """Write the explanation of every survivor into its row."""
    for name, row in rows.items():
        for survivor in row.get("survivors", ()):
            survivor["explained"] = explained(name, survivor)
