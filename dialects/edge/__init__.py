"""The edge dialect: functional, alias-free operators with explicit dim order; target-independent passes work here."""
