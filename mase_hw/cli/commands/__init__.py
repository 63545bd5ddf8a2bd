"""The subcommands: each a file with ``HELP``, ``configure(parser)`` and ``run(arguments)``."""
