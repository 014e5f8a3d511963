// A transaction as a test of the seller's, with the fixtures of faregate's pytest plugin.

export const pytestOf = (one) => `def test_${one.resource}(emulator, payer): ...`;
