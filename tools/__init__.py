"""The command lines: et-opt, et-translate, et-run, et-compile, and what joins them. Thin: the work is in the packages.

``common.py`` is what all share (files, diagnostics, exit codes); a tool's parts are files named for what they do.
"""
