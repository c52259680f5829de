"""The sym dialect: symbolic dims, their ranges, and arithmetic on runtime scalars."""
