"""Benchmarks: every number is a ratio within one run, printed with its target; none is asserted in a test."""
