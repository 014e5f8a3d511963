# pragma version 0.4.3
# pragma evm-version cancun
"""
@title The proxy of the x402 scheme `upto` for tests, with the functions, events and errors of
       x402UptoPermit2Proxy. No package carries that contract as it is published.
@dev It asks the real Permit2, whose code does come from a package. Nothing is kept here, so its code can stand
     at any address without a constructor having run there.
"""

event Settled:
    pass

event SettledWithPermit:
    pass

struct TokenPermissions:
    token: address
    amount: uint256

struct PermitTransferFrom:
    permitted: TokenPermissions
    nonce: uint256
    deadline: uint256

struct SignatureTransferDetails:
    to: address
    requestedAmount: uint256

struct Witness:
    to: address
    facilitator: address
    validAfter: uint256

struct EIP2612Permit:
    value: uint256
    deadline: uint256
    r: bytes32
    s: bytes32
    v: uint8

interface Permit2:
    def permitWitnessTransferFrom(
        permit: PermitTransferFrom, details: SignatureTransferDetails, owner: address, witness: bytes32,
        witness_type: String[200], signature: Bytes[1024]
    ): nonpayable

PERMIT2: constant(address) = 0x000000000022D473030F116dDEE9F6B43aC78BA3
WITNESS: constant(bytes32) = keccak256("Witness(address to,address facilitator,uint256 validAfter)")
WITNESS_TYPE: constant(String[200]) = "Witness witness)TokenPermissions(address token,uint256 amount)Witness(address to,address facilitator,uint256 validAfter)"


@external
@nonreentrant
def settle(
    permit: PermitTransferFrom, amount: uint256, owner: address, witness: Witness, signature: Bytes[1024]
):
    self._settle(permit, amount, owner, witness, signature)
    log Settled()


@external
@nonreentrant
def settleWithPermit(
    permit2612: EIP2612Permit, permit: PermitTransferFrom, amount: uint256, owner: address, witness: Witness,
    signature: Bytes[1024]
):
    if permit2612.value != permit.permitted.amount:
        raw_revert(method_id("Permit2612AmountMismatch()"))
    # It may fail: the payer may have approved Permit2 in another way.
    success: bool = raw_call(
        permit.permitted.token,
        abi_encode(
            owner, PERMIT2, permit2612.value, permit2612.deadline, permit2612.v, permit2612.r, permit2612.s,
            method_id=method_id("permit(address,address,uint256,uint256,uint8,bytes32,bytes32)"),
        ),
        revert_on_failure=False,
    )
    self._settle(permit, amount, owner, witness, signature)
    log SettledWithPermit()


@internal
def _settle(
    permit: PermitTransferFrom, amount: uint256, owner: address, witness: Witness, signature: Bytes[1024]
):
    if amount > permit.permitted.amount:
        raw_revert(method_id("AmountExceedsPermitted()"))
    if msg.sender != witness.facilitator:
        raw_revert(method_id("UnauthorizedFacilitator()"))
    if amount == 0:
        raw_revert(method_id("InvalidAmount()"))
    if owner == empty(address):
        raw_revert(method_id("InvalidOwner()"))
    if witness.to == empty(address):
        raw_revert(method_id("InvalidDestination()"))
    if block.timestamp < witness.validAfter:
        raw_revert(method_id("PaymentTooEarly()"))
    hashed: bytes32 = keccak256(abi_encode(WITNESS, witness.to, witness.facilitator, witness.validAfter))
    details: SignatureTransferDetails = SignatureTransferDetails(to=witness.to, requestedAmount=amount)
    extcall Permit2(PERMIT2).permitWitnessTransferFrom(permit, details, owner, hashed, WITNESS_TYPE, signature)
