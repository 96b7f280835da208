"""``python -m lace`` is ``lace``."""

from lace.cli import main

if __name__ == "__main__":
    main()
