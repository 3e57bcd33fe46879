"""The cluster wing: training jobs on devices of different types (docs/cluster-policies.md).

:mod:`~eunomia.cluster.job` and :mod:`~eunomia.contract.cluster` say what must be done and with what,
:mod:`~eunomia.cluster.throughput` how fast, :mod:`~eunomia.contract.allocation` what an allocator sees and may answer.
"""
