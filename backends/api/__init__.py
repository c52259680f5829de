"""What a backend is to the compiler: the interface, patterns and conditions of what it claims, backends by name.

Passes of delegation import from here and know no backend; the backends themselves are folders beside this one.
"""
