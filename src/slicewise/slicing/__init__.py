"""General stream slicing: one operator for all windows (Cutty, CIKM 2016; Scotty, TODS 2020).

The stream slicer puts events into slices, the slice manager updates, merges and orders them, the
aggregate store keeps their states, and the window manager turns slices into results. Slicing and
merging are independent layers.
"""
