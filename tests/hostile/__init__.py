"""What a hostile tenant does, and what another one sees of it: attacks on a live server, in one table.

``python -m benchmarks serving-hostile`` measures them; ``tests/serving/test_hostile.py`` runs all of them shortly.
"""

from tests.hostile import of_json, of_many, of_values, over_grpc, over_http

ATTACKS = {
    **over_http.ATTACKS,
    **of_json.ATTACKS,
    **of_many.ATTACKS,
    **over_grpc.ATTACKS,
    **of_values.ATTACKS,
}
