"""``python -m roofline``."""

from roofline.cli.app import run

if __name__ == "__main__":
    run()
