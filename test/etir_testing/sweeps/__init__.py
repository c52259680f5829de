"""What tests of sweeps give to plans."""
