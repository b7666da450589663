"""Pairs that only the states of a training run or of decoding are sure to show."""

# name | problem | codes | classes | first profile that can show it
PAIRS = """
# real text: one token far ahead of the others
loop_hottest_row_bf16      | embedding_grad | LOOP001 | N1 L1 | standard
# decode: every row of the batch has a position of its own
loop_batch_of_one_position | rope_neox      | LOOP002 | L7    | standard
"""
