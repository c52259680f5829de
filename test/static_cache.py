"""Runs decoders with their static cache: see ``etir_testing.models.static_cache``."""

import sys

from etir_testing.models.static_cache import main

if __name__ == "__main__":
    sys.exit(main())
