"""Pass ``functionalize``: a program that changes tensors in place becomes one that only computes new values.

* ``aliases.py``: which values share storage, and what each of them holds at this point of the program.
* ``views.py``: which operators give views, and how a changed view is put back into what it looks at.
* ``lists.py``: operators that view every tensor of a list.
* ``strides.py``: whether ``reshape``, ``contiguous`` and ``to`` give a view or a copy.
* ``functional_variants.py``: the functional operator for an in-place, out or mutating one.
* ``mutations.py``: what each mutating operator stores. * ``regions.py``: changes inside of control flow.
* ``emitter.py``: building the new operations. * ``driver.py``: the pass.

Changes of state and of inputs leave as ``et.write_state`` and ``et.update_input``.
"""

from etir.lowering.functionalize.driver import FunctionalizePass

__all__ = ["FunctionalizePass"]
