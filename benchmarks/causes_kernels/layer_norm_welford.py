import torch

EPS = 1e-5


class Statistics:
    def __init__(self, rows):
        self.count = 0
        self.mean = torch.zeros(rows, 1)
        self.m2 = torch.zeros(rows, 1)

    def update(self, chunk):
        size = chunk.shape[1]
        mean = chunk.mean(1, keepdim=True)
        m2 = ((chunk - mean) ** 2).sum(1, keepdim=True)
        delta = mean - self.mean
        total = self.count + size
        self.m2 = self.m2 + m2 + delta * delta * (self.count * size / total)
        self.mean = self.mean + delta * (size / total)
        self.count = total

    def variance(self):
        return self.m2 / self.count


def layer_norm(x, weight, bias):
    stats = Statistics(x.shape[0])
    for chunk in x.split(96, dim=1):
        stats.update(chunk)
    rstd = torch.rsqrt(stats.variance() + EPS)
    normed = (x - stats.mean) * rstd
    return normed * weight + bias
