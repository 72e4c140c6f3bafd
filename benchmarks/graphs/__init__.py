"""Generate graphs, workloads of path queries, updates and expected answers in the manner of gMark.

gMark (Bagan et al., TKDE 2017) describes a graph by the proportions of its node types and, for each predicate between
two types, by the distributions of out-degrees and in-degrees; queries are random walks over that schema. Everything
here is determined by a seed:

* ``schemas``: what the graphs ``wd``, ``snb`` and ``wdd`` look like;
* ``generate``: a graph of a schema and a size;
* ``paths`` and ``workloads``: path queries, and the workloads ``rd``, ``rec`` and ``nav``;
* ``scenarios``: updates of a graph, by symbols or by edges;
* ``answers``: the answers to queries, over Python sets;
* ``files``: writes all of it to a folder that ``gmark.py`` reads.
"""
