"""The fee for data on the layer below, which chains of the OP stack take beside gas."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from faregate.rules.payments import PaymentPostponed, PaymentsUnavailable, SignedTransfer
from faregate.service.chain.abi import encode_call
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.direct.gas_account import GasAccount
from faregate.service.chain.direct.l1_fee import ORACLE
from faregate.service.chain.direct.signers import KeySigner
from tests.service.chain.gas_books import POLICY, TERMS, Row, Worker
from tests.service.chain.test_direct_verify import Verify, payment, verify
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.rpc_proxy import RpcProxy, fail_with

__all__ = ["payment", "verify"]

FEE = 10**15
"""A thousandth of an ether: more than the gas of a transfer on a test chain."""
UPPER_BOUND, EXACT = "getL1FeeUpperBound(uint256)", "getL1Fee(bytes)"
Sign = Callable[[], SignedTransfer | PaymentPostponed]


def place_oracle(chain: LocalChain, function: str, fee: int = FEE) -> None:
    """Put an oracle on the chain that has this function only, and reverts otherwise."""
    selector = bytes.fromhex(encode_call(function)[2:10])
    answer = b"\x5b\x7f" + fee.to_bytes(32, "big") + b"\x5f\x52\x60\x20\x5f\xf3"
    # If the first four bytes of the input are the selector, jump to the answer.
    check = b"\x5f\x35\x60\xe0\x1c\x63" + selector + b"\x14\x60"
    code = check + bytes([len(check) + 5]) + b"\x57\x5f\x5f\xfd" + answer
    chain.call("anvil_setCode", ORACLE, "0x" + code.hex())


@pytest.fixture(params=[UPPER_BOUND, EXACT])
def oracle(chain: LocalChain, request: pytest.FixtureRequest) -> None:
    place_oracle(chain, request.param)


def get_gas_cost(worker: Worker) -> int:
    """What the gas of a transfer may cost."""
    balance = worker.account.read_balance()
    return balance.transfer_cost - balance.l1_fee


def test_a_chain_without_the_oracle_takes_no_such_fee(worker: Worker) -> None:
    balance = worker.account.read_balance()
    assert (balance.l1_fee, balance.transfer_cost > 0, balance.is_low) == (0, True, False)


@pytest.mark.usefixtures("oracle")
def test_an_account_with_gas_alone_takes_no_payments(
    chain: LocalChain, gas: ChainPayer, worker: Worker, verify: Verify
) -> None:
    """The fee may double before the transfer is in a block."""
    cost = get_gas_cost(worker)
    chain.fund(gas.address, cost + 2 * FEE - 1)
    assert "send it some" in str(worker.account.find_obstacle())
    with pytest.raises(PaymentsUnavailable, match="send it some"):
        verify()
    chain.fund(gas.address, cost + 2 * FEE)
    assert worker.account.find_obstacle() is None
    verify()


@pytest.mark.usefixtures("oracle")
def test_an_account_with_gas_alone_signs_nothing(
    chain: LocalChain, gas: ChainPayer, worker: Worker, row: Row
) -> None:
    chain.fund(gas.address, get_gas_cost(worker))
    attempt = row.begin()
    answer = worker.payments.sign(row.payment, TERMS, attempt, None)
    assert isinstance(answer, PaymentPostponed)
    assert "send it some" in answer.reason
    chain.fund(gas.address, get_gas_cost(worker) + 2 * FEE)
    assert isinstance(worker.payments.sign(row.payment, TERMS, attempt, None), SignedTransfer)


@pytest.mark.usefixtures("oracle")
def test_an_account_that_cannot_pay_a_transfer_is_low(
    chain: LocalChain, gas: ChainPayer, worker: Worker
) -> None:
    """Also where it has more than the alarm asks for."""
    held = max(POLICY.alarm_balance, 2 * FEE) + 1
    chain.fund(gas.address, held)
    balance = worker.account.read_balance()
    assert (balance.l1_fee, balance.is_low) == (2 * FEE, True)
    assert balance.transfer_cost > held > POLICY.alarm_balance
    chain.fund(gas.address, balance.transfer_cost)
    assert not worker.account.read_balance().is_low


def test_a_node_that_does_not_tell_the_fee_is_not_taken_for_one_without_it(
    chain: LocalChain, proxy: RpcProxy, gas: ChainPayer
) -> None:
    place_oracle(chain, UPPER_BOUND)
    reader = ChainReader(USDC.chain, [proxy.url], clock=lambda: datetime.now(UTC))
    account = GasAccount(reader, KeySigner(gas.private_key), lambda: datetime.now(UTC), POLICY)
    proxy.change["eth_call"] = fail_with(-32005, "limit exceeded")
    with pytest.raises(PaymentsUnavailable):
        account.find_obstacle()
    reader.close()
