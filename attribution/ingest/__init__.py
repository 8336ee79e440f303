"""Profiler files of any origin become tables that can be trusted.

In: .ncu-rep, ncu CSV, nsys SQLite, Kineto and Chrome JSON (`read.read`, or `load` of each format's module), and the
in-kernel trace buffers (`trace`).  Out: frames that conform to `attribution.tables`, and a note for all that was left out.
Misuse: absent is not zero, a sum is not a union, and times of two scopes or two rules are never combined.
"""
