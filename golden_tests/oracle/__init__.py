"""An oracle for Datalog programs under change that shares no code with the compiler.

``language.py`` reads programs, ``evaluate.py`` computes what they mean from scratch, ``batches.py`` applies changes to
inputs; ``programs.py`` makes random programs and batches from a seed and ``strategies.py`` makes them with hypothesis;
``second_engines.py`` asks clingo and DuckDB the same.
"""
