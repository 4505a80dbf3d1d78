"""Turns chapters into a book: execution, freshness, the static site and its charts.

Nothing below this room knows of notebooks or web pages.
"""
