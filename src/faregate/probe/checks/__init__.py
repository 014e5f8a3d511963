"""The checks of the probe in the order they are made. Check ids never change, because scripts use them."""
