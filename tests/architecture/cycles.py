"""Finds cycles among the includes of src and include. foo.hpp and foo.cpp of one folder count as one unit."""

import layers


def graph(root):
    """Returns {unit: the units that it includes}. A unit is named by its path without the suffix."""
    root = root.resolve()
    units = {}
    for source in layers.sources(root):
        unit = str(source.relative_to(root).with_suffix(""))
        included = units.setdefault(unit, set())
        for line in source.read_text(encoding="utf-8").splitlines():
            include = layers.INCLUDE.match(line)
            if target := include and layers.included(root, source, include[1] or include[2]):
                included.add(str(target.relative_to(root).with_suffix("")))
        included.discard(unit)
    return units


def cycles(units):
    """Returns the strongly connected components of more than one unit, each sorted (Tarjan, 1972)."""
    found, index, low, stack = [], {}, {}, []

    def visit(unit):
        index[unit] = low[unit] = len(index)
        stack.append(unit)
        for used in units.get(unit, ()):
            if used not in index:
                visit(used)
                low[unit] = min(low[unit], low[used])
            elif used in stack:
                low[unit] = min(low[unit], index[used])
        if low[unit] == index[unit]:
            component = [stack.pop()]
            while component[-1] != unit:
                component.append(stack.pop())
            if len(component) > 1:
                found.append(sorted(component))

    for unit in units:
        if unit not in index:
            visit(unit)
    return sorted(found)
