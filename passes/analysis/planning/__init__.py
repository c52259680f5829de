"""Memory planning as plain algorithms: which byte offset every buffer of a program gets.

Nothing here knows the IR. ``liveness`` turns an abstract instruction list into lifetimes, ``problem`` states a planning
problem, ``lower_bound`` says how good a plan can be, ``algorithms`` finds one and ``verify`` proves it, sharing no code
with the algorithms. The pass that reads buffers from the IR and writes offsets back belongs one folder up.
Import from the modules; this file stays empty so that tools pay only for what they use.
"""
