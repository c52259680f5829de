"""What runs passes: the base class, the registry, pipelines as text, the manager, the rewrite driver, instruments.

No pass lives here, and nothing here knows what any pass does.

* ``base.py``: what a pass is. ``registry.py``: passes by name, those of plug-ins too.
* ``pipeline.py``: pipelines as text. ``manager.py``: runs them with verification, printing, timing, reproducers.
* ``rewriting.py``: patterns and the greedy driver. ``pdl_patterns.py``: patterns that users write as PDL.
"""
