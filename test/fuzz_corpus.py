"""Makes the seeds in ``test/corpus`` again: see ``etir_testing.runtime.fuzz_corpus``."""

import sys

from etir_testing.runtime.fuzz_corpus import main

if __name__ == "__main__":
    sys.exit(main())
