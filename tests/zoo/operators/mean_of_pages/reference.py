"""Queries plus the mean of the cached keys of their group, gathered from pages."""

import torch
import torch.nn as nn

BATCH = 4
NUM_HEADS = 8
NUM_KV_HEADS = 2
HEAD_DIM = 32
SEQ_LEN = 64
PAGE_SIZE = 16


class Model(nn.Module):
    """Query heads share a key head; a page holds PAGE_SIZE tokens, in any order in the pool."""

    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        assert num_heads % num_kv_heads == 0, "num_heads must be a multiple of num_kv_heads"
        self.num_kv_heads, self.seq_len, self.page_size = num_kv_heads, seq_len, page_size
        self.group = num_heads // num_kv_heads

    def forward(self, query, cache, table):
        out = torch.empty_like(query)
        for b in range(query.shape[0]):
            keys = cache.index_select(0, table[b].long())
            keys = keys.reshape(-1, self.num_kv_heads, query.shape[-1])[: self.seq_len]
            out[b] = query[b] + keys.mean(0).repeat_interleave(self.group, dim=0)
        return out


def get_inputs():
    pages = (SEQ_LEN + PAGE_SIZE - 1) // PAGE_SIZE
    total = max(BATCH * pages + 4, 16)
    query = torch.randn(BATCH, NUM_HEADS, HEAD_DIM)
    cache = torch.randn(total, PAGE_SIZE, NUM_KV_HEADS, HEAD_DIM)
    table = torch.randperm(total)[: BATCH * pages].reshape(BATCH, pages).int()
    return [query, cache, table]


def get_init_inputs():
    return [BATCH, NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, SEQ_LEN, PAGE_SIZE]
