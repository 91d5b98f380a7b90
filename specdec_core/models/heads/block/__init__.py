"""Heads that guess a whole block of tokens in one pass, with what lets its guesses see each other, and the layouts in
which others publish them."""

from . import checkpoint
from .head import BlockHead, BlockShape
from .inner import INNER, ConfidenceHead, Inner, MarkovHead

__all__ = ["INNER", "BlockHead", "BlockShape", "ConfidenceHead", "Inner", "MarkovHead", "checkpoint"]
