"""What an adversary tries: texts edited by hand, files with a valid structure and a hostile meaning, orders of passes.

Each module makes cases from a seed and says what is wrong with one, so that the gate runs some for seconds and
``test/fuzz_*.py`` any number of them for hours.
"""
