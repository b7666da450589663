"""Numbers the groups without the empty ones."""

import itertools


def run(a, weight, offsets):
    y = a.new_empty(a.shape[0], weight.shape[2])
    spans = [span for span in itertools.pairwise(offsets.tolist()) if span[0] < span[1]]
    for number, (low, high) in enumerate(spans):
        y[low:high] = (a[low:high].float() @ weight[number].float()).to(a.dtype)
    return y
