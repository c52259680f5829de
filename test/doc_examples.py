"""Runs the examples of the documents: see ``etir_testing.docs.examples``."""

import sys

from etir_testing.docs.examples import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
