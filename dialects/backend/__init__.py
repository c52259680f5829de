"""The backend dialect: what target-specific lowering adds to edge operators: delegate calls, views without copies."""
