"""The operator family of a problem, from its name and what its file says of it."""

from __future__ import annotations

import re

# First match wins: an "attention" problem may hold a softmax, a fused norm an embedding.
_FAMILIES: tuple[tuple[str, str], ...] = (
    ("quantisation", r"quant|fp8|fp4|int8|nvfp4|mxfp"),
    ("mixture of experts", r"moe|expert|router|routing|gating_top"),
    ("attention", r"attention|attn|mla|gqa|mha|flash|paged|kv_?cache|sdpa"),
    ("optimizer", r"adam|sgd|muon|lion|momentum|optimi[sz]er|optim_step"),
    ("loss", r"cross_?entropy|nll|kl_?div|mse|hinge|huber|smooth_?l1|triplet|cosine_?sim|\bloss"),
    ("embedding", r"embed|gather|scatter|index_(add|select)|lookup"),
    ("position encoding", r"rope|rotary|positional|alibi"),
    ("norm", r"norm"),
    ("scan", r"scan|cumsum|cumprod|mamba|ssm|selective|recurren|\brnn|lstm|gru|delta_?rule|rwkv"),
    ("convolution", r"conv"),
    ("pooling", r"pool"),
    ("gated unit", r"glu|gated_mlp|silu_and_mul|gelu_and_mul"),
    ("softmax", r"softmax|logsumexp|soft_?cap"),
    ("sampling", r"sampl|top_?k|top_?p|multinomial|argmax|sort"),
    ("matrix product", r"gemm|matmul|mat_?mul|\bmm\b|bmm|linear|matrix|einsum|mlp|proj"),
    ("activation", r"relu|gelu|silu|swish|sigmoid|tanh|activation|elu\b|mish|softplus|softsign"),
    (
        "network",
        r"res_?net|dense_?net|mobile_?net|efficient_?net|shuffle_?net|squeeze_?net|google_?net|"
        r"le_?net|vgg|vlad|transformer|gpt_?block|llama|\bvae\b|_vae_|u_?net\b",
    ),
    ("reduction", r"sum|mean|reduc|max|min|prod|var\b|std\b|histogram"),
    ("elementwise", r"add|mul|copy|cast|transpose|permute|concat|split|elementwise|vector"),
)
_PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in _FAMILIES)


def operator_family(name: str, *, op_type: str = "", description: str = "") -> str:
    """Return the family by the first of op_type, name and description that tells; else "other".

    Only the first line of the description counts: later ones tell what surrounds the operator.
    """
    first_line = description.strip().partition("\n")[0]
    for text in (op_type, name, first_line):
        found = _matched(text)
        if found:
            return found
    return "other"


def _matched(text: str) -> str:
    whole = text.lower().replace("-", "_")
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", text).lower().replace("-", "_")
    forms = (whole, words, words.replace("_", " "))
    for name, pattern in _PATTERNS:
        if any(pattern.search(form) for form in forms):
            return name
    return ""
