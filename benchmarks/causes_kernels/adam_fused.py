import torch

BETA1 = 0.9
BETA2 = 0.999
EPS = 1e-8


def adam_step(p, g, m, v, lr):
    m_new = torch.empty_like(m)
    v_new = torch.empty_like(v)
    p_new = torch.empty_like(p)
    n = p.numel()
    for s in range(0, n, 1024):
        e = min(s + 1024, n)
        gi = g[s:e]
        mi = BETA1 * m[s:e] + (1.0 - BETA1) * gi
        vi = BETA2 * v[s:e] + (1.0 - BETA2) * gi * gi
        denom = vi.sqrt() + EPS
        p_new[s:e] = p[s:e] - lr * mi / denom
        m_new[s:e] = mi
        v_new[s:e] = vi
    return p_new, m_new, v_new
