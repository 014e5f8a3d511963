"""Check the database, the catalog and the keys."""

from faregate.errors import FaregateError
from faregate.selfhosted.books import EXAMPLE_PAY_TO, Books, find_missing
from faregate.selfhosted.database.accounts import AccountRow
from faregate.selfhosted.database.clock import Stamps
from faregate.selfhosted.database.engine import Database
from faregate.selfhosted.database.keys import list_keys
from faregate.selfhosted.database.reports import read_database_clock
from faregate.selfhosted.doctor.findings import Findings, report_error, report_ok, warn
from faregate.selfhosted.settings import Settings
from faregate.system import system_clock

MOST_SECONDS_APART = 10
"""Two processes that are so far from the database are less than 30 seconds apart, which sales tolerate."""

_SUBJECT = "database"
_REMEDY = "Start it, create it, give its user rights to its tables, or mend `database` or `database_file`."


def check_database(settings: Settings) -> Findings:
    """Check that the database answers, has the tables of this version, and something to sell."""
    database = Database(settings.database.get_secret_value(), pool_size=1)
    try:
        missing = find_missing(database)
    except FaregateError as error:
        yield report_error(_SUBJECT, str(error), _REMEDY)
        return
    else:
        if missing:
            text = f"{database.name} lacks migrations {', '.join(missing)}"
            yield report_error(_SUBJECT, text, "Run `faregate service init`.")
            return
        yield report_ok(_SUBJECT, f"{database.name} is reachable and current")
        books = Books(database, Stamps(database, system_clock))
        yield from _check_clock(database)
        yield from _check_accounts(settings, books)
        for unserved in books.find_unserved(settings):
            yield warn("open payments", unserved.text, unserved.remedy)
    finally:
        database.close()


def _check_clock(database: Database) -> Findings:
    theirs = read_database_clock(database)
    if theirs is None:
        return
    ahead = (system_clock() - theirs).total_seconds()
    if abs(ahead) > MOST_SECONDS_APART:
        place = "ahead of" if ahead > 0 else "behind"
        yield warn(
            _SUBJECT,
            f"this machine's clock is {abs(ahead):.0f} seconds {place} that of the database",
            "Set the clocks of both by NTP.",
        )


def _check_accounts(settings: Settings, books: Books) -> Findings:
    accounts = [one for one in books.list_accounts() if one.environment in settings.environments]
    if not accounts:
        yield warn("catalog", "there is nothing to sell", "Run `faregate service apply catalog.toml`.")
    for account in accounts:
        yield from _check_account(settings, books, account)


def _check_account(settings: Settings, books: Books, account: AccountRow) -> Findings:
    subject = f"{account.environment} seller {account.name}"
    if settings.payments != "simulated" and account.pay_to == EXAMPLE_PAY_TO:
        yield report_error(
            subject,
            "payments would go to the address of the example, which nobody owns",
            "Write `pay_to` under [seller] in the catalog, and apply it.",
        )
    else:
        yield report_ok(subject, f"is paid at {account.pay_to}")
    with books.database.read() as connection:
        valid = [key for key in list_keys(connection, account.id) if key.revoked_at is None]
    if not valid:
        yield warn(
            subject,
            "has no valid API key",
            f"Run `faregate service key create --environment {account.environment}`.",
        )
