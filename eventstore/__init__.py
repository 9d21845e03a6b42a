"""The log: appends, order, snapshots, transactions, schema, integrity."""
