"""Spark DataFrames: the verbs on tables that no single process holds.

Only the DataFrame API is used, so everything also works through Spark Connect.
"""
