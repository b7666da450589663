"""Pairs about torch.compile and custom operators: right in eager mode, wrong once compiled."""

# name | problem | codes | classes | first profile that can show it, or `require KEY`
PAIRS = """
# what an operator writes to or shares
op_write_undeclared   | swiglu          | OPCHECK001 COMPILE001 | A14    | require compile
op_returns_its_input  | rmsnorm@float32 | OPCHECK001            | A14 A5 | require compile
# fake kernels
op_fake_strides       | swiglu          | OPCHECK001 COMPILE001 | A14 A1 | require compile
op_fake_dtype         | rmsnorm         | OPCHECK001 COMPILE001 | A14 A7 | require compile
op_fake_missing       | softmax_softcap | OPCHECK001            | A14    | require compile
# what a trace keeps
compile_other_path    | swiglu@float32  | COMPILE001 | A14 N8 | standard | require compile
compile_weight_frozen | rmsnorm         | COMPILE001 | A14 S5 | standard | require compile
"""
