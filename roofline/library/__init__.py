"""What `import roofline` offers: the questions of the command line as functions, with typed arguments and reports as values."""
