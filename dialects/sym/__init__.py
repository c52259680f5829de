"""The sym dialect: symbolic dims, their ranges, and arithmetic on numbers known only at run time."""
