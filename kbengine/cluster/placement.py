"""Which searcher has which shards, and on which machine each of its replicas runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbengine.errors import InvalidOptionError


@dataclass(frozen=True)
class ShardSize:
    """A shard by name, with how many rows it has."""

    name: str
    rows: int


def place_shards(shards: Sequence[ShardSize], n_searchers: int) -> dict[str, int]:
    """Return the number of the searcher that has each shard.

    Oldest first, each goes where the fewest rows are. So what is added moves nothing, and every process that knows the
    shards comes to the same.

    >>> place_shards([ShardSize("a", 90), ShardSize("b", 80), ShardSize("c", 5)], 2)
    {'a': 0, 'b': 1, 'c': 1}

    Args:
        shards: in the order of their documents.
        n_searchers: how many there are.
    """
    if n_searchers < 1:
        raise InvalidOptionError(f"there are {n_searchers} searchers, wanted 1 or more")
    rows = [0] * n_searchers
    found: dict[str, int] = {}
    for shard in shards:
        number = min(range(n_searchers), key=lambda i: (rows[i], i))
        rows[number] += shard.rows
        found[shard.name] = number
    return found


@dataclass(frozen=True)
class Slot:
    """One replica of a searcher."""

    searcher: int
    replica: int


def place_replicas(
    slots: Sequence[Slot], nodes: Sequence[str], current: Mapping[Slot, str] | None = None
) -> dict[Slot, str]:
    """Return the machine for each replica; those that are where they may be stay there.

    Replicas of one searcher are on different machines as far as there are enough, and machines have equally many. A
    machine that is drained, or gone, is not among `nodes`: what was there moves, and nothing else.

    Args:
        slots: all replicas.
        nodes: names of the machines that may be used.
        current: where replicas are now.

    Raises:
        InvalidOptionError: there is no machine.
    """
    if not nodes:
        raise InvalidOptionError("there is no machine to search on; take one out of draining, or add one")
    found = {slot: node for slot, node in (current or {}).items() if slot in slots and node in nodes}
    load = Counter(found.values())
    for slot in sorted(set(slots) - set(found), key=lambda each: (each.replica, each.searcher)):
        beside = {node for other, node in found.items() if other.searcher == slot.searcher}
        found[slot] = min(nodes, key=lambda node: (node in beside, load[node], nodes.index(node)))
        load[found[slot]] += 1
    return {slot: found[slot] for slot in slots}
