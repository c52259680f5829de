"""The backend dialect: what target-specific lowering adds to edge operators, delegate calls and views without copies."""
