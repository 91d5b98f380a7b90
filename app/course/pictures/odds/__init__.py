"""Distributions, coins and the rules that judge by them."""
