"""What to do: plans evaluated and searched, sweeps and their crossovers, cost, failures, advice."""
