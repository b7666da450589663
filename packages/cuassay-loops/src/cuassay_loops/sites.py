"""The places of the model at which a kernel can be plugged in, each a catalogue operator."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass

from cuassay.errors import CandidateError, UnknownNameError
from cuassay.formats import load_problem
from cuassay.model.problem import ConstAxis, Problem

PRECISIONS = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


class Phase(enum.StrEnum):
    """When a site's operator runs."""

    FORWARD = "forward"
    BACKWARD = "backward"
    DECODE = "decode"
    OPTIMIZER = "optimizer"
    ENCODER = "encoder"  # forward, in an encoder of real weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place of the model. `parameters` are outputs that are gradients of parameters."""

    name: str
    problem: str
    phase: Phase
    about: str
    parameters: tuple[str, ...] = ()
    rows: str = ""  # the output whose rows are tokens of the vocabulary
    experts: bool = False  # whether only a mixture of experts has it
    optimizer: str = ""  # the optimizer whose step it is
    inside: bool = False  # whether its reference rounds before it sums: tokens alike err alike
    retyped: bool = True  # whether its operator has a form in every working dtype


def _site(name: str, phase: Phase, about: str, **more: object) -> Site:
    problem = str(more.pop("problem", name))
    return Site(name=name, problem=problem, phase=phase, about=about, **more)  # type: ignore[arg-type]


_F, _B, _D = Phase.FORWARD, Phase.BACKWARD, Phase.DECODE
_O, _E = Phase.OPTIMIZER, Phase.ENCODER
_ALL = (
    _site("embedding", _F, "token look-up"),
    _site(
        "embedding_grad",
        _B,
        "gradient of the embedding table",
        parameters=("grad_weight",),
        rows="grad_weight",
    ),
    _site(
        "embedding_rmsnorm_backward",
        _B,
        "gradients of the embedding table and of the norm behind it, fused",
        parameters=("grad_embed_weight", "grad_norm_weight"),
        rows="grad_embed_weight",
    ),
    _site("rmsnorm", _F, "every RMSNorm"),
    _site("rmsnorm_backward", _B, "gradients of every RMSNorm", parameters=("grad_weight",)),
    _site("fused_add_rmsnorm", _F, "residual sum and the RMSNorm behind it"),
    _site("rope_neox", _F, "rotary embedding of queries and keys"),
    _site("rope_neox_backward", _B, "gradients of the rotary embedding"),
    _site("attention", _F, "causal grouped attention"),
    _site("attention_window_softcap", _F, "windowed attention with soft-capped scores"),
    _site("attention_backward", _B, "gradients of causal attention"),
    _site("swiglu", _F, "gated unit of every MLP"),
    _site("swiglu_backward", _B, "gradients of the gated unit"),
    _site("linear", _F, "every matrix product with a weight", problem="gemm"),
    _site("cross_entropy", _F, "loss of each token"),
    _site("cross_entropy_backward", _B, "gradient of the logits"),
    _site("linear_cross_entropy", _F, "head and loss, fused"),
    _site(
        "linear_cross_entropy_backward",
        _B,
        "gradients of head and loss, fused",
        parameters=("grad_weight",),
        inside=True,
    ),
    _site("moe_route", _F, "choice of two experts a token", experts=True, retyped=False),
    _site("moe_gather", _F, "rows in order of their experts", experts=True),
    _site("moe_experts", _F, "gated units of all experts", experts=True),
    _site("moe_combine", _F, "weighted sum of each token's experts", experts=True),
    _site("moe_scatter", _B, "gradient of the rows of experts", experts=True),
    _site("adamw_step", _O, "step of AdamW", optimizer="adamw"),
    _site("sgd_momentum_step", _O, "step of SGD with momentum", optimizer="momentum"),
    _site("muon_step", _O, "step of Muon on matrices", optimizer="muon"),
    _site("layernorm", _E, "every LayerNorm of an encoder"),
    _site("gemm_bias_gelu", _E, "first half of an encoder's MLP"),
    _site("softmax_masked", _E, "soft-max of an encoder's attention"),
    _site("batched_gemm", _E, "products of an encoder's attention"),
    _site(
        "attention_decode",
        _D,
        "attention of one query a sequence over the paged cache",
        problem="paged_attention_decode",
    ),
)
SITES = {site.name: site for site in _ALL}
_ALIASES = {site.problem: site.name for site in _ALL} | {
    "embedding_rmsnorm_backward_64k": "embedding_rmsnorm_backward"
}


def site_of_problem(name: str) -> Site | None:
    """Return the site of a problem by its name, with or without its dtype, or None."""
    plain = name.partition("@")[0]
    known = _ALIASES.get(plain)
    return SITES[known] if known else None


def find_site(name: str) -> Site:
    """Return a site by its name or its catalogue operator's. Raises UnknownNameError."""
    key = name if name in SITES else _ALIASES.get(name, name)
    if key not in SITES:
        raise UnknownNameError("site", name, SITES, "A site is where the kernel is plugged in.")
    return SITES[key]


def site_problem(site: Site, precision: str, *, vocab: int, source: str = "") -> Problem:
    """Return the problem at a site in a precision (a key of PRECISIONS), for a vocabulary.

    `source` names another problem with the same inputs and outputs, whose candidates are
    written for it. Raises CandidateError where they differ, UnknownNameError for a precision.
    """
    if precision not in PRECISIONS:
        raise UnknownNameError("precision", precision, PRECISIONS)
    name = f"{site.problem}@{PRECISIONS[precision]}" if site.retyped else site.problem
    own = _resized(load_problem(name), vocab)
    if not source:
        return own
    given = _resized(load_problem(source), vocab)
    for side in ("inputs", "outputs"):
        wanted = [spec.name for spec in getattr(own, side)]
        found = [spec.name for spec in getattr(given, side)]
        if wanted != found:
            raise CandidateError(
                f"problem '{given.name}' does not fit site '{site.name}': its {side} are "
                f"{', '.join(found)}, expected {', '.join(wanted)} (operator '{site.problem}')"
            )
    return dataclasses.replace(own, axes=given.axes)


def _resized(problem: Problem, vocab: int) -> Problem:
    """Give a vocabulary that is a constant of the problem the model's size."""
    axes = tuple(
        dataclasses.replace(axis, value=vocab)
        if isinstance(axis, ConstAxis) and axis.name == "vocab"
        else axis
        for axis in problem.axes
    )
    return dataclasses.replace(problem, axes=axes)
