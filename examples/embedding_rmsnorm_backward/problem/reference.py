"""Fused embedding gradient and RMSNorm backward, as one writes it in PyTorch."""

import torch

VOCAB = 1024


def get_inputs(axes_and_scalars, device):
    """Uniformly drawn token ids, standard normal gradients and hidden states."""
    tokens, hidden = axes_and_scalars["tokens"], axes_and_scalars["hidden"]
    hidden_states = torch.randn(tokens, hidden, dtype=torch.float32, device=device)
    return {
        "grad_output": torch.randn(tokens, hidden, device=device).to(torch.bfloat16),
        "input_ids": torch.randint(0, VOCAB, (tokens,), dtype=torch.int64, device=device),
        "hidden_states": hidden_states,
        "rstd": torch.rsqrt(hidden_states.square().mean(-1) + 1e-6),
        "norm_weight": (1.0 + 0.1 * torch.randn(hidden, device=device)).to(torch.bfloat16),
    }


@torch.no_grad()
def run(grad_output, input_ids, hidden_states, rstd, norm_weight):
    """y = x * rstd * w; the gradient of x is added to the embedding row of its token."""
    grad = grad_output.to(torch.float32)
    scaled = grad * norm_weight.to(torch.float32)
    scale = rstd.unsqueeze(-1)
    normalised = hidden_states * scale
    mean = (scaled * normalised).mean(dim=-1, keepdim=True)
    grad_hidden = scale * (scaled - normalised * mean)
    grad_embed_weight = torch.zeros(
        VOCAB, hidden_states.shape[-1], dtype=torch.float32, device=hidden_states.device
    )
    grad_embed_weight.index_add_(0, input_ids, grad_hidden)
    grad_norm_weight = (grad * normalised).sum(dim=0)
    return grad_embed_weight.to(torch.bfloat16), grad_norm_weight.to(torch.bfloat16)
