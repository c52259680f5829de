"""Control flow as regions, shared by every level above the executable one."""
