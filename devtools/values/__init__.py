"""Values: what the operations of a program compute, by the origins that they are marked with."""
