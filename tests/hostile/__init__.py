"""What a hostile tenant does, and what another one sees of it: attacks on a live server, in one table.

``python -m benchmarks serving-hostile`` measures them; ``tests/serving/test_hostile.py`` runs all of them shortly.
``TLS``: on a server with a certificate.
"""

from tests.hostile import of_json, of_many, of_values, over_grpc, over_http, over_tls

ATTACKS = {
    **over_http.ATTACKS,
    **of_json.ATTACKS,
    **of_many.ATTACKS,
    **over_grpc.ATTACKS,
    **of_values.ATTACKS,
}
TLS = over_tls.ATTACKS
