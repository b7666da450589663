"""Pairs about what servers pass: pages, lengths, offsets, experts, slots, packed codes, scales."""

# name | problem | codes | classes
PAIRS = """
# serving: pages
pages_of_others         | paged_attention_ragged | NUM001        | L9
pages_in_order          | paged_attention_ragged | NUM001        | L9
# serving: lengths
triton_decode_empty     | paged_attention_ragged | NUM001        | O5 N12
longest_first           | paged_attention_ragged | NUM001        | O5
triton_last_split       | paged_attention_ragged | NUM001 SHP001 | O10
pooled_empty_row        | zoo:pooled_rows        | NUM001        | O5 N12
# serving: masked scores
infinite_scores         | zoo:masked_scores      | NUM001        | N12 N13
# serving: offsets
empty_sequence          | attention_varlen       | NUM001        | O5
# serving: experts
triton_padding_expert   | moe_gemm               | NUM001        | L8
experts_without_tokens  | moe_gemm               | NUM002 SHP001 | O5
crowded_expert          | moe_gemm               | NUM002        | O5
# serving: slots
padding_slot            | cache_write            | NUM001        | L8
# serving: codes and scales
triton_scale_group      | w4a16_gemm             | NUM001 SHP001 | A12
triton_zero_point       | w4a16_gemm             | NUM001 API003 | A6
scale_blocks_swapped    | fp8_gemm_block         | NUM001        | A12
scales_read_linearly    | mxfp8_gemm_swizzled    | NUM001        | A12
# serving: ties
triton_equal_numbers    | top_k                  | NUM001        | O4
# serving: chunks
triton_chunk_tail       | gated_linear_attention | NUM001 SHP001 | O10
"""

# Faults that show where what may be anything is anything.
OUTSIDE = """
# serving: pages
triton_page_after_last  | paged_attention_ragged | MEM101 MEM004 RUN001 | M3 L9
triton_stale_values     | paged_attention_ragged | MEM004        | M7 L9
# serving: offsets
rows_after_last         | zoo:padded_group_sums  | MEM004        | M7 L8
# serving: codes and scales
scales_with_padding     | mxfp8_gemm_swizzled    | MEM004        | M7
"""
