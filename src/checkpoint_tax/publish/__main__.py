"""Lets ``make`` build the book with ``python -m checkpoint_tax.publish build``."""

from checkpoint_tax.publish.commands import main

if __name__ == "__main__":
    raise SystemExit(main())
