"""Slurm's fair share: factors of users in a tree of accounts, by the classic formula and by Fair Tree.

A user is named by its path, ``account/sub-account/user``; shares count among the children of one account.

* Classic (``classic_fair_share.html``): F = 2^(-U_E / S / d). S is the product of shares along the path, each over its
  siblings'. Effective usage U_E = U_A + (U_E of the parent - U_A) * own shares / siblings' shares, U_A the part of all
  usage in this subtree; just below the root U_E = U_A.
* Fair Tree (``fair_tree.html``): level fair share S / U among siblings; children are visited from the highest to the
  lowest. A user's factor is its rank over the number of users. Ties share a rank, tied accounts merge their children.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

ROOT = 0


@dataclass(frozen=True, eq=False)
class ShareTree:
    """Accounts and users as arrays over nodes; node 0 is the root, parents come before their children."""

    parent: Ints  # (n,), -1 for the root
    shares: Floats  # (n,)
    leaf: Ints  # (users,) node of each user
    level: Floats  # (n,) shares over those of all siblings, itself included

    @classmethod
    def of(
        cls,
        users: Sequence[str],
        shares: Mapping[str, float],
        user_shares: Sequence[float] | None = None,
        idle: bool = False,
    ) -> ShareTree:
        """The tree that the users' paths span. ``shares`` by path, otherwise ``user_shares`` and 1 for accounts.

        ``idle``: shares of paths that nobody has belong to accounts and users without jobs, and dilute the others'.
        Raises ConfigError for such shares otherwise, and for negative ones.
        """
        accounts: dict[str, int] = {"": ROOT}
        parent, share, leaf = [-1], [1.0], []
        for number, path in enumerate(users):
            parts = path.split("/")
            above = ROOT
            for depth in range(1, len(parts)):
                name = "/".join(parts[:depth])
                if name not in accounts:
                    accounts[name] = len(parent)
                    parent.append(above)
                    share.append(shares.get(name, 1.0))
                above = accounts[name]
            leaf.append(len(parent))
            parent.append(above)
            share.append(shares.get(path, 1.0 if user_shares is None else user_shares[number]))
        _check(shares, {*shares} if idle else {*accounts, *users})
        for path in sorted(set(shares) - {*accounts, *users}, key=lambda path: path.count("/")):
            accounts[path] = len(parent)
            parent.append(accounts.get(path.rpartition("/")[0], ROOT))
            share.append(shares[path])
        raw, up = np.array(share), np.array(parent, np.int64)
        siblings = np.zeros(len(raw))
        np.add.at(siblings, up[1:], raw[1:])
        level = np.ones(len(raw))
        level[1:] = np.divide(raw[1:], siblings[up[1:]], out=np.zeros(len(raw) - 1), where=raw[1:] > 0.0)
        return cls(up, raw, np.array(leaf, np.int64), level)

    def used(self, usage: Floats) -> Floats:
        """Usage of every node, its whole subtree's; ``usage`` (users,)."""
        used = np.zeros(len(self.parent))
        used[self.leaf] = usage
        for node in range(len(used) - 1, ROOT, -1):
            used[self.parent[node]] += used[node]
        return used


def classic(tree: ShareTree, usage: Floats, dampening: float = 1.0) -> Floats:
    """Factors (users,) from 0 to 1; 0.5 = used exactly what the shares promise."""
    used = tree.used(usage)
    if not used[ROOT] > 0.0:
        return np.ones(len(tree.leaf))
    actual = used / used[ROOT]
    effective, normal = actual.copy(), np.ones(len(used))
    for node in range(1, len(used)):
        above = tree.parent[node]
        normal[node] = normal[above] * tree.level[node]
        if above != ROOT:
            effective[node] += (effective[above] - actual[node]) * tree.level[node]
    share = normal[tree.leaf]
    exponent = np.divide(effective[tree.leaf], share, out=np.full(len(share), np.inf), where=share > 0.0)
    return np.asarray(np.exp2(-exponent / dampening))


def fair_tree(tree: ShareTree, usage: Floats) -> Floats:
    """Factors (users,): rank over the number of users, the best served by nobody so far has 1."""
    used = tree.used(usage)
    whole = used[np.maximum(tree.parent, ROOT)]
    part = np.divide(used, whole, out=np.zeros(len(used)), where=used > 0.0)
    level = np.divide(tree.level, part, out=np.full(len(used), np.inf), where=part > 0.0)
    level[tree.shares <= 0.0] = 0.0
    children: list[list[int]] = [[] for _ in tree.parent]
    for node in range(1, len(tree.parent)):
        children[tree.parent[node]].append(node)
    users = {int(node): number for number, node in enumerate(tree.leaf)}
    below = _users_below(tree, users)
    factor = np.zeros(len(users))
    visits = [(children[ROOT], len(users))]
    while visits:
        nodes, rank = visits.pop()
        for tied in _groups(nodes, level):
            for node in tied:
                if node in users:
                    factor[users[node]] = rank / len(users)
            visits.append(([child for node in tied for child in children[node]], rank))
            rank -= sum(below[node] for node in tied)
    return factor


def _groups(nodes: list[int], level: Floats) -> list[list[int]]:
    """Nodes with equal level fair share together, the highest first."""
    ordered = sorted(nodes, key=lambda node: -level[node])
    groups: list[list[int]] = []
    for node in ordered:
        if groups and level[groups[-1][0]] == level[node]:
            groups[-1].append(node)
        else:
            groups.append([node])
    return groups


def _users_below(tree: ShareTree, users: Mapping[int, int]) -> list[int]:
    below = [int(node in users) for node in range(len(tree.parent))]
    for node in range(len(below) - 1, ROOT, -1):
        below[tree.parent[node]] += below[node]
    return below


def _check(shares: Mapping[str, float], known: set[str]) -> None:
    for name, value in shares.items():
        if name not in known:
            raise ConfigError(
                f"shares are given for '{name}', which no user's path contains; write account/sub-account/user"
            )
        if not (0.0 <= value < np.inf):
            raise ConfigError(f"the shares of '{name}' are {value}; they must be a finite number, at least 0")
