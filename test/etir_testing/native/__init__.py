"""Running the ``tile`` level: by what operations mean, and as machine code of this computer."""
