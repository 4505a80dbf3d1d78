"""Lets ``python -m checkpoint_tax`` stand for the command ``checkpoint-tax``."""

from checkpoint_tax.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
