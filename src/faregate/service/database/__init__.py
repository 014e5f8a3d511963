"""The SQL database of the service: schema, migrations, accounts, keys, catalog and the store.

PostgreSQL, or SQLite in one file. Every public method is one short transaction.
"""
