"""What would help: changes that this accountant can express, each evaluated by the real analysis, and a path of them."""
