"""One payment, used many times at once, over all threads and processes of a server."""

import base64
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.contract.conftest import Seller, assert_released
from tests.support.headers import decode_header


def test_one_proof_twenty_times_at_once_runs_once(seller: Seller) -> None:
    """A server with few threads serves some of them after the first: those get the result again."""
    path = "/do?what=sleep-0.5"
    proof = seller.proof_for(path)
    with ThreadPoolExecutor(20) as pool:
        responses = list(pool.map(lambda _: seller.get(path, proof), range(20)))
    assert (len(seller.runs()), seller.outcome(), seller.count("complete")) == (1, "succeeded", 1)
    counted = Counter(response.status_code for response in responses)
    assert set(counted) <= {200, 409}
    assert 1 <= counted[200] <= 4
    for response in responses:
        if response.status_code == 200:
            assert_released(response)
        else:
            assert response.json()["code"] in ("payment_in_progress", "proof_already_used")


def test_one_payment_in_eight_encodings_at_once_runs_once(seller: Seller) -> None:
    path = "/do?what=sleep-0.3"
    proof = seller.proof_for(path)
    payload = decode_header(proof)
    spelt = [base64.b64encode(json.dumps(payload, indent=width).encode()).decode() for width in range(1, 8)]
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda one: seller.get(path, one), [proof, *spelt]))
    # None is asked to pay again.
    assert sorted(response.status_code for response in responses) == [200] + [409] * 7
    assert (len(seller.runs()), seller.outcome()) == (1, "succeeded")


def test_one_proof_for_eight_requests_at_once_buys_one(seller: Seller) -> None:
    path = "/do?what=sleep-0.3&number="
    proof = seller.proof_for(path)
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda number: seller.get(f"{path}{number}", proof), range(8)))
    assert (len(seller.runs()), seller.outcome(), seller.count("complete")) == (1, "succeeded", 1)
    assert sorted(response.status_code for response in responses) == [200] + [409] * 7
    refused = [response.json()["code"] for response in responses if response.status_code == 409]
    assert set(refused) == {"proof_already_used"}


def test_many_proofs_at_once_are_not_mixed_up(seller: Seller) -> None:
    paths = [f"/do?what=sleep-0.05&number={number}" for number in range(16)]
    proofs = [seller.proof_for(path) for path in paths]
    with ThreadPoolExecutor(16) as pool:
        responses = list(pool.map(seller.get, paths, proofs))
    for response in responses:
        assert_released(response)
    assert len({response.headers["payment-response"] for response in responses}) == 16
    assert {run.transaction for run in seller.runs()} == set(seller.statuses())
    assert set(seller.statuses().values()) == {"succeeded"}
