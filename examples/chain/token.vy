# pragma version 0.4.3
# pragma evm-version cancun
"""
@title An EIP-3009 token for tests, with the functions, events and error texts of Circle's FiatTokenV2_2.
@dev It has no owner, so anyone may mint. Its values are part of the code, so that the code can stand at any
     address without a constructor having run there.
"""

event Transfer:
    sender: indexed(address)
    receiver: indexed(address)
    value: uint256

event Approval:
    owner: indexed(address)
    spender: indexed(address)
    value: uint256

event AuthorizationUsed:
    authorizer: indexed(address)
    nonce: indexed(bytes32)

event AuthorizationCanceled:
    authorizer: indexed(address)
    nonce: indexed(bytes32)

decimals: public(constant(uint8)) = 6
name: public(immutable(String[32]))
version: public(immutable(String[8]))
symbol: public(immutable(String[8]))
totalSupply: public(uint256)
balanceOf: public(HashMap[address, uint256])
allowance: public(HashMap[address, HashMap[address, uint256]])
authorizationState: public(HashMap[address, HashMap[bytes32, bool]])

DOMAIN: constant(bytes32) = keccak256(
    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
TRANSFER: constant(bytes32) = keccak256(
    "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
)
CANCEL: constant(bytes32) = keccak256("CancelAuthorization(address authorizer,bytes32 nonce)")
WITH_BYTES: constant(bytes4) = method_id(
    "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)", output_type=bytes4
)
# Above it, the same authorization would have a second signature (half the order of secp256k1).
HALF_ORDER: constant(uint256) = 57896044618658097711785492504343953926418782139537452191302581570759080747168


@deploy
def __init__(name_: String[32], version_: String[8], symbol_: String[8]):
    name = name_
    version = version_
    symbol = symbol_


@external
def mint(to: address, amount: uint256):
    self.balanceOf[to] += amount
    self.totalSupply += amount
    log Transfer(sender=empty(address), receiver=to, value=amount)


@external
def transfer(to: address, amount: uint256) -> bool:
    self._transfer(msg.sender, to, amount)
    return True


@external
def approve(spender: address, amount: uint256) -> bool:
    self.allowance[msg.sender][spender] = amount
    log Approval(owner=msg.sender, spender=spender, value=amount)
    return True


@external
def transferFrom(sender: address, to: address, amount: uint256) -> bool:
    allowed: uint256 = self.allowance[sender][msg.sender]
    assert allowed >= amount, "ERC20: transfer amount exceeds allowance"
    # An approval without a limit is never used up.
    if allowed != max_value(uint256):
        self.allowance[sender][msg.sender] = allowed - amount
    self._transfer(sender, to, amount)
    return True


@external
def transferWithAuthorization(
    sender: address, to: address, amount: uint256, valid_after: uint256, valid_before: uint256, nonce: bytes32,
    v: uint8, r: bytes32, s: bytes32
):
    self._transfer_with_authorization(sender, to, amount, valid_after, valid_before, nonce, v, r, s)


@external
def cancelAuthorization(authorizer: address, nonce: bytes32, v: uint8, r: bytes32, s: bytes32):
    assert not self.authorizationState[authorizer][nonce], "FiatTokenV2: authorization is used or canceled"
    self._check_signature(authorizer, keccak256(abi_encode(CANCEL, authorizer, nonce)), v, r, s)
    self.authorizationState[authorizer][nonce] = True
    log AuthorizationCanceled(authorizer=authorizer, nonce=nonce)


@external
def __default__():
    # Vyper has no overloading: this is transferWithAuthorization with the signature as bytes.
    assert convert(slice(msg.data, 0, 4), bytes4) == WITH_BYTES, "no such function"
    sender: address = empty(address)
    to: address = empty(address)
    amount: uint256 = 0
    valid_after: uint256 = 0
    valid_before: uint256 = 0
    nonce: bytes32 = empty(bytes32)
    signature: Bytes[65] = b""
    sender, to, amount, valid_after, valid_before, nonce, signature = abi_decode(
        slice(msg.data, 4, 352), (address, address, uint256, uint256, uint256, bytes32, Bytes[65])
    )
    assert len(signature) == 65, "FiatTokenV2: invalid signature"
    self._transfer_with_authorization(
        sender, to, amount, valid_after, valid_before, nonce,
        convert(slice(signature, 64, 1), uint8), extract32(signature, 0), extract32(signature, 32)
    )


@external
@view
def DOMAIN_SEPARATOR() -> bytes32:
    return self._domain_separator()


@internal
def _transfer_with_authorization(
    sender: address, to: address, amount: uint256, valid_after: uint256, valid_before: uint256, nonce: bytes32,
    v: uint8, r: bytes32, s: bytes32
):
    assert block.timestamp > valid_after, "FiatTokenV2: authorization is not yet valid"
    assert block.timestamp < valid_before, "FiatTokenV2: authorization is expired"
    assert not self.authorizationState[sender][nonce], "FiatTokenV2: authorization is used or canceled"
    message: bytes32 = keccak256(abi_encode(TRANSFER, sender, to, amount, valid_after, valid_before, nonce))
    self._check_signature(sender, message, v, r, s)
    self.authorizationState[sender][nonce] = True
    log AuthorizationUsed(authorizer=sender, nonce=nonce)
    self._transfer(sender, to, amount)


@internal
def _transfer(sender: address, to: address, amount: uint256):
    assert self.balanceOf[sender] >= amount, "ERC20: transfer amount exceeds balance"
    self.balanceOf[sender] -= amount
    self.balanceOf[to] += amount
    log Transfer(sender=sender, receiver=to, value=amount)


@internal
@view
def _check_signature(signer: address, message: bytes32, v: uint8, r: bytes32, s: bytes32):
    digest: bytes32 = keccak256(concat(x"1901", self._domain_separator(), message))
    assert convert(s, uint256) <= HALF_ORDER and v in [27, 28], "FiatTokenV2: invalid signature"
    recovered: address = ecrecover(digest, v, r, s)
    assert recovered == signer and recovered != empty(address), "FiatTokenV2: invalid signature"


@internal
@view
def _domain_separator() -> bytes32:
    return keccak256(abi_encode(DOMAIN, keccak256(name), keccak256(version), chain.id, self))
