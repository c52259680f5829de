"""etir: a multi-dialect compiler from ``torch.export`` programs to ExecuTorch ``.pte`` files."""
