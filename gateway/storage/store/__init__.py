"""The store of records that outlive the gateway, on disk or in memory."""
