"""Kernels specialised for an algebra: compiled with Numba, or interpreted by the same source.

The combine of an aggregate is put into the loop that needs it, which is the papers' "code
generation instead of dynamic dispatch". Numba's disk cache knows functions of files only, so a
specialised kernel is written as a small module of its own and imported from there.
"""
