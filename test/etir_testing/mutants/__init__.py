"""How strong the tests are: small faults that are put into the sources, one at a time, and which of them a test sees.

``python_mutants`` and ``cpp_mutants`` list the faults that a source can have, and ``mutant`` samples from them.
``applying`` puts one into a process without touching a file, ``suites`` runs lit and pytest in forks of a process that
has everything imported, ``measuring`` notes which test runs which line, ``judging`` runs the tests of a mutant's lines
until one fails, and ``cpp_judging`` compiles a mutant of the native runtime and runs the tests of that. The command is
``python test/mutants.py``; ``found.json`` says of each mutant that no test kills why that is so.
"""
