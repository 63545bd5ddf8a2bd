"""Attention: products, masks and heads as chains of ops that take tokens in the order in which they come."""

from mase_hw.passes.lower.attention.lower_attention import (
    lower_attention_transform_pass as lower_attention_transform_pass,
)
