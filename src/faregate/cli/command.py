"""What the commands of `faregate`, `flask faregate` and `manage.py` share."""


class CommandError(Exception):
    """The command was called in a way that cannot work. The message says what to change; the status is 2."""
