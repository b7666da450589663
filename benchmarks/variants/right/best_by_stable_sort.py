def run(logits):
    i = logits.argsort(dim=-1, descending=True, stable=True)[:, :4]
    return logits.gather(1, i), i.contiguous()
