"""The machine: external programs, folders, processes that outlive their parent."""
