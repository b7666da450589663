# problem: dequantize_int8_per_row
# class: sizes
# wrong: rows from the 4,097th on
# named: shapes sizes
# begins: rows=4097
import torch


def right(codes, scale):
    return (codes.float() * scale.unsqueeze(-1)).to(torch.bfloat16)


def run(codes, scale):
    rows = torch.arange(codes.shape[0], device=codes.device) % 4096
    return right(codes, scale[rows])
