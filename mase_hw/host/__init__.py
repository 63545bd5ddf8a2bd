"""The machine below: external programs, folders that cannot be written, processes that outlive their parent."""
