"""The mean of each row's kept tokens; zeros for a row that keeps none."""


def run(x, lengths, mask):
    kept = mask.unsqueeze(-1)
    count = lengths.clamp(min=1)
    total = x.float().masked_fill(~kept, 0.0).sum(1)
    return (total / count.unsqueeze(-1)).to(x.dtype)
