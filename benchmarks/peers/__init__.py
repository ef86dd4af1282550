"""folt beside other tools, each in a process of its own and with its own recommended settings."""
