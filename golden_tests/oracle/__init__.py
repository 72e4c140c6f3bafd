"""An oracle for Datalog programs under change that shares no code with the compiler.

``language.py`` reads programs, with ``functions.py``; ``evaluate.py`` computes what they mean from scratch, and
``batches.py`` applies changes to inputs. ``psn.py`` and ``transitions.py`` do the same by the rules of the papers;
``second_engines.py`` asks clingo and DuckDB. ``random_programs.py`` makes random programs and batches from a seed,
``random_chains.py`` and ``random_sums.py`` those of special kinds, and ``strategies.py`` makes them with hypothesis;
``names.py`` gives programs names that are hard to quote.
"""
