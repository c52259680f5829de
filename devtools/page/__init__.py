"""The explorer page: one HTML file that shows a trace, with a profile, values and compare results where there are some.

``data`` collects what the page shows as plain columns, ``document`` puts them and the scripts of this folder into one
file. Names in a program are anybody's: they reach the page as data only, and its scripts write them as text.
"""
